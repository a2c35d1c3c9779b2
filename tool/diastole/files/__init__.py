"""Files of users: read with care, written whole or not at all."""
