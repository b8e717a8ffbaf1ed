"""Tables and queries of the deployment service. Functions take the connection or transaction of their caller."""
