"""Memory of the program under construction: what adds it, names its state and says where it lives."""
