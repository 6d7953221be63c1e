// RUN: ocannl-opt %s -p lower-assign-to-loops --split-input-file --verify-diagnostics | filecheck %s

// Setting a cell twice has no meaning; accumulating has.
assign.routine @r {
  %x = assign.node "x" constant : memref<3xf32>
  %y = assign.node "y" on_device : memref<4xf32>
  assign.accum %y[i + j] := %x[i] over (i = 3, j = 2)
}

// CHECK: {{:[0-9]+:[0-9]+}}: points that differ in i, j set the same cell
