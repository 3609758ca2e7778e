"""What every room shares: files, errors, checksums, processes, and how a command starts."""
