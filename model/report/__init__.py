"""The evaluation as one page to read: ``write_report`` makes it, with CSV files beside it."""

from unison.model.report.page import write_report

__all__ = ["write_report"]
