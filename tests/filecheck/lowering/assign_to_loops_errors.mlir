// RUN: ocannl-opt %s -p lower-assign-to-loops --split-input-file --verify-diagnostics | filecheck %s

// Several variables of one axis are not supported yet.
assign.routine @r {
  %x = assign.node "x" constant : memref<3xf32>
  %y = assign.node "y" on_device : memref<4xf32>
  assign.accum %y[i + j] :add= %x[i] over (i = 3, j = 2)
}

// CHECK: {{:[0-9]+:[0-9]+}}: an assignment whose points write the same cell cannot be lowered yet
