"""The dashboard's page: static files that any browser runs as they are, and that load nothing from
other hosts."""
