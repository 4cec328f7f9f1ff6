"""The routes: what each operation takes and answers. Only the application imports them."""
