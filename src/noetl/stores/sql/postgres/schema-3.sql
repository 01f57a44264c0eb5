-- Version 3: nothing yet.
SELECT 1;
