"""The admin's pages among millions of rows: how many statements, how many milliseconds."""
