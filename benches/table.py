"""Tables as CSV files, to which scripts add rows run by run."""

import csv


def read(path):
    """The rows of a table; none if the file is not there yet."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def add(path, columns, rows):
    """Adds rows to a table, whose file is made with the first ones."""
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerows(rows)
