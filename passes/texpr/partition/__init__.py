"""The pass `partition`: programs of one rank of a mesh, with collectives."""
