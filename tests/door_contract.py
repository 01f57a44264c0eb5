"""A contract for import-linter: a package is imported as a whole, and nothing reaches past what it exports."""

from __future__ import annotations

from typing import Any

import grimp
from importlinter import Contract, ContractCheck, fields, output


class DoorContract(Contract):
    """Modules of a package are imported from inside of it only; everything else imports the package itself.

    `packages` are those with a door. `public` are modules that are used as modules, by their subject.
    """

    type_name = "doors"

    packages = fields.ListField(subfield=fields.StringField())
    public = fields.SetField(subfield=fields.StringField(), required=False)

    def check(self, graph: grimp.ImportGraph, verbose: bool) -> ContractCheck:
        """Return every import that reaches past a door."""
        public: Any = self.public or set()
        illegal = [
            f"{importer} -> {module}: import it from {package}"
            for package in self.packages  # type: ignore[attr-defined]
            for module in sorted(graph.find_descendants(package) - public)
            for importer in sorted(graph.find_modules_that_directly_import(module))
            if importer != package and not importer.startswith(f"{package}.")
        ]
        return ContractCheck(kept=not illegal, metadata={"illegal": illegal})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print one line for each import."""
        for line in check.metadata["illegal"]:
            output.print_error(line)
