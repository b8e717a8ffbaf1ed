"""How API objects look in text: pure functions from JSON to lines."""
