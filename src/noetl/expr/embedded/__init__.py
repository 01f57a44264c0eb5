"""Languages that stand inside playbooks as text with templates in it: SQL and shell."""
