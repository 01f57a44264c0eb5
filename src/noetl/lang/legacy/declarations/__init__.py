"""The parts of an older document around its steps: header, keychain and credentials."""
