"""What a playbook will do, as plain data, without running it: `noetl explain` and `noetl run --plan`."""
