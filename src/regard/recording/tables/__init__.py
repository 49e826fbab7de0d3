"""What a recording says, as tables for other programs: the strongest links, and one row a head.

``docs/tables.md`` describes the columns; ``VERSION`` counts the changes that break a reader.
"""

from regard.recording.tables.contents import TABLES, table
from regard.recording.tables.rows import SUFFIXES, VERSION, Column, Table, named

__all__ = ["SUFFIXES", "TABLES", "VERSION", "Column", "Table", "named", "table"]
