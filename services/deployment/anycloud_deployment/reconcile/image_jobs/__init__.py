"""What brings the runs of image Jobs to what is stored; `phases.py` lists the steps."""
