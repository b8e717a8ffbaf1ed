"""What brings the world to what is stored; `phases.py` lists the steps."""
