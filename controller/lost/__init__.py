"""Who is lost: rows and losses by the values of a dimension, as drivers counted them."""
