// RUN: ocannl-opt %s | ocannl-opt | filecheck %s
// RUN: ocannl-opt %s --print-op-generic | ocannl-opt | filecheck %s

// CHECK-LABEL: assign.routine @nodes {
// CHECK-NEXT:    %0 = assign.node "x" constant because "data" : memref<80x10x2xf32>
// CHECK-NEXT:    %1 = assign.node "w.grad" on_device : memref<16xf64>
// CHECK-NEXT:    %2 = assign.node "h" local at 64 because "intermediate \22value\22" : memref<i8>
// CHECK-NEXT:    %3 = assign.node "v" virtual because "computed where it is used" : memref<0x3xbf16>
// CHECK-NEXT:    %4 = assign.node "i" local always_inline because "asked for" : memref<4xf32>
// CHECK-NEXT:  }
assign.routine @nodes {
  %0 = assign.node "x" constant because "data" : memref<80x10x2xf32>
  %1 = assign.node "w.grad" on_device : memref<16xf64>
  %2 = assign.node "h" local at 64 because "intermediate \22value\22" : memref<i8>
  %3 = assign.node "v" virtual because "computed where it is used" : memref<0x3xbf16>
  %4 = assign.node "i" local always_inline because "asked for" : memref<4xf32>
}

// CHECK-LABEL: assign.routine @code indices (step_n, batch_n = 8) {
// CHECK-NEXT:    %x = assign.node "x" constant : memref<8x4xf32>
// CHECK-NEXT:    %y = assign.node "y" on_device : memref<4xf32>
// CHECK-NEXT:    %z = assign.node "z" on_device : memref<f32>
// CHECK-NEXT:    %e = assign.embed -batch_n + 2*step_n + 1 : f32
// CHECK-NEXT:    assign.comment "one"
// CHECK-NEXT:    assign.accum %y[i] :add= mul(%x[batch_n, i], %e[]) over (i = 4)
// CHECK-NEXT:    assign.accum %y[i] = fma(%x[0, i], 2.0, %x[2*i + 1, -i + 3]) over (i = 4)
// CHECK-NEXT:    assign.accum %y[0] := 1.0e-05 over ()
// CHECK-NEXT:    assign.accum %z[] max= %x[j, i] over (j = 8, i = 4)
// CHECK-NEXT:    assign.accum %y[i] = %y[i] over (i = 0)
// CHECK-NEXT:    assign.range %y
// CHECK-NEXT:    assign.uniform %y "u#1" at %e
// CHECK-NEXT:    assign.uniform %y "u#2" second at %z
// CHECK-NEXT:  }
assign.routine @code indices (step_n, batch_n = 8) {
  %x = assign.node "x" constant : memref<8x4xf32>
  %y = assign.node "y" on_device : memref<4xf32>
  %z = assign.node "z" on_device : memref<f32>
  %e = assign.embed -batch_n + 2*step_n + 1 : f32
  assign.comment "one"
  assign.accum %y[i] :add= mul(%x[batch_n, i], %e[]) over (i = 4)
  assign.accum %y[i] = fma(%x[0, i], 2.0, %x[2*i + 1, -i + 3]) over (i = 4)
  assign.accum %y[0] := 1.0e-05 over ()
  assign.accum %z[] max= %x[j, i] over (j = 8, i = 4)
  assign.accum %y[i] = %y[i] over (i = 0)
  assign.range %y
  assign.uniform %y "u#1" at %e
  assign.uniform %y "u#2" second at %z
}
