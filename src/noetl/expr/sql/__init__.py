"""SQL with templates: values are bound as parameters, never spliced into the text."""
