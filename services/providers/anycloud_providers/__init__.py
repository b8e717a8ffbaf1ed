"""The clouds, behind one narrow protocol."""
