// RUN: ocannl-opt %s | ocannl-opt | filecheck %s
// RUN: ocannl-opt %s --print-op-generic | ocannl-opt | filecheck %s

assign.routine @inner indices (k = 3, t = 4, step) {
  %s = assign.node "s" on_device : memref<2xf32>
  %now = assign.embed 3*t + k + step : f32
  assign.accum %s[i] = %now over (i = 2)
}

// A body may repeat others, and gives them its own index.
assign.routine @outer indices (t = 4, step) {
  %s = assign.node "s" on_device : memref<2xf32>
  %x = assign.node "x" constant : memref<4x2xf32>
  assign.accum %s[i] add= %x[t, i] over (i = 2)
  assign.repeat @inner k = 3 ("s" = %s)
}

// CHECK-LABEL: assign.routine @main indices (step) {
// CHECK:         assign.repeat @outer t = 4 ("s" = %s, "x" = %y)
// CHECK-NEXT:    assign.repeat @outer t = 4 while %going ("s" = %s, "x" = %y)
// CHECK-NEXT:    assign.repeat @nothing n = 0 ()
assign.routine @nothing indices (n = 0) {
}
assign.routine @main indices (step) {
  %s = assign.node "sum" local : memref<2xf32>
  %y = assign.node "s" on_device : memref<4x2xf32>
  %going = assign.node "going" on_device : memref<1xi1>
  assign.accum %s[i] = 0 over (i = 2)
  assign.repeat @outer t = 4 ("s" = %s, "x" = %y)
  assign.repeat @outer t = 4 while %going ("s" = %s, "x" = %y)
  assign.repeat @nothing n = 0 ()
}
