"""Message passing and mean field."""
