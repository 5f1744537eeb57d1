"""Define what each value of an axis changes in the cells of a grid."""
