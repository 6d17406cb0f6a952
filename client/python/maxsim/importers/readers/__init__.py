"""What several families of importers read their files with."""
