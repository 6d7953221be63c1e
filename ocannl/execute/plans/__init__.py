"""Plans: what programs take on meshes and machines that need not be there."""
