// RUN: ocannl-opt %s --split-input-file -p fold-layers | filecheck %s

// Of seven products the first two stay, and the last two: the sixth reads what the second has computed.
// CHECK-LABEL: assign.routine @products attributes {layers = {{\[}}["w0", "w1", "w2", "w3", "w4", "w5", "w6"], ["x1", "x2", "x3", "x4", "x5", "x6", "x7"]]}
// CHECK-NOT:     "x3"
// CHECK-NOT:     "w4"
// CHECK:         assign.comment "first"
// CHECK-NEXT:    assign.accum %x1[i] :add= mul(%w0[i, j], %x0[j])
// CHECK-NEXT:    assign.accum %x2[i] :add= mul(%w1[i, j], %x1[j])
// CHECK-NEXT:    assign.accum %x6[i] :add= mul(%w5[i, j], %x2[j])
// CHECK-NEXT:    assign.accum %x7[i] :add= mul(%w6[i, j], %x6[j])
// CHECK-NEXT:  }
assign.routine @products {
  %x0 = assign.node "x0" on_device because "node" : memref<8xf32>
  %x1 = assign.node "x1" on_device because "node" : memref<8xf32>
  %x2 = assign.node "x2" on_device because "node" : memref<8xf32>
  %x3 = assign.node "x3" on_device because "node" : memref<8xf32>
  %x4 = assign.node "x4" on_device because "node" : memref<8xf32>
  %x5 = assign.node "x5" on_device because "node" : memref<8xf32>
  %x6 = assign.node "x6" on_device because "node" : memref<8xf32>
  %x7 = assign.node "x7" on_device because "node" : memref<8xf32>
  %w0 = assign.node "w0" on_device because "parameter" : memref<8x8xf32>
  %w1 = assign.node "w1" on_device because "parameter" : memref<8x8xf32>
  %w2 = assign.node "w2" on_device because "parameter" : memref<8x8xf32>
  %w3 = assign.node "w3" on_device because "parameter" : memref<8x8xf32>
  %w4 = assign.node "w4" on_device because "parameter" : memref<8x8xf32>
  %w5 = assign.node "w5" on_device because "parameter" : memref<8x8xf32>
  %w6 = assign.node "w6" on_device because "parameter" : memref<8x8xf32>
  assign.comment "first"
  assign.accum %x1[i] :add= mul(%w0[i, j], %x0[j]) over (i = 8, j = 8)
  assign.accum %x2[i] :add= mul(%w1[i, j], %x1[j]) over (i = 8, j = 8)
  assign.accum %x3[i] :add= mul(%w2[i, j], %x2[j]) over (i = 8, j = 8)
  assign.comment "fourth"
  assign.accum %x4[i] :add= mul(%w3[i, j], %x3[j]) over (i = 8, j = 8)
  assign.accum %x5[i] :add= mul(%w4[i, j], %x4[j]) over (i = 8, j = 8)
  assign.accum %x6[i] :add= mul(%w5[i, j], %x5[j]) over (i = 8, j = 8)
  assign.accum %x7[i] :add= mul(%w6[i, j], %x6[j]) over (i = 8, j = 8)
}

// -----

// One layer is another function: none is left out.
// CHECK-LABEL: assign.routine @unequal {
// CHECK-COUNT-7: assign.accum
assign.routine @unequal {
  %x0 = assign.node "x0" on_device because "node" : memref<8xf32>
  %x1 = assign.node "x1" on_device because "node" : memref<8xf32>
  %x2 = assign.node "x2" on_device because "node" : memref<8xf32>
  %x3 = assign.node "x3" on_device because "node" : memref<8xf32>
  %x4 = assign.node "x4" on_device because "node" : memref<8xf32>
  %x5 = assign.node "x5" on_device because "node" : memref<8xf32>
  %x6 = assign.node "x6" on_device because "node" : memref<8xf32>
  %x7 = assign.node "x7" on_device because "node" : memref<8xf32>
  %w0 = assign.node "w0" on_device because "parameter" : memref<8x8xf32>
  %w1 = assign.node "w1" on_device because "parameter" : memref<8x8xf32>
  %w2 = assign.node "w2" on_device because "parameter" : memref<8x8xf32>
  %w3 = assign.node "w3" on_device because "parameter" : memref<8x8xf32>
  %w4 = assign.node "w4" on_device because "parameter" : memref<8x8xf32>
  %w5 = assign.node "w5" on_device because "parameter" : memref<8x8xf32>
  %w6 = assign.node "w6" on_device because "parameter" : memref<8x8xf32>
  assign.accum %x1[i] :add= mul(%w0[i, j], %x0[j]) over (i = 8, j = 8)
  assign.accum %x2[i] :add= mul(%w1[i, j], %x1[j]) over (i = 8, j = 8)
  assign.accum %x3[i] :add= mul(%w2[i, j], %x2[j]) over (i = 8, j = 8)
  assign.accum %x4[i] :add= max(%w3[i, j], %x3[j]) over (i = 8, j = 8)
  assign.accum %x5[i] :add= mul(%w4[i, j], %x4[j]) over (i = 8, j = 8)
  assign.accum %x6[i] :add= mul(%w5[i, j], %x5[j]) over (i = 8, j = 8)
  assign.accum %x7[i] :add= mul(%w6[i, j], %x6[j]) over (i = 8, j = 8)
}

// -----

// All layers add to one node.
// CHECK-LABEL: assign.routine @shared {
// CHECK-COUNT-14: assign.accum
assign.routine @shared {
  %x0 = assign.node "x0" on_device because "node" : memref<8xf32>
  %x1 = assign.node "x1" on_device because "node" : memref<8xf32>
  %x2 = assign.node "x2" on_device because "node" : memref<8xf32>
  %x3 = assign.node "x3" on_device because "node" : memref<8xf32>
  %x4 = assign.node "x4" on_device because "node" : memref<8xf32>
  %x5 = assign.node "x5" on_device because "node" : memref<8xf32>
  %x6 = assign.node "x6" on_device because "node" : memref<8xf32>
  %x7 = assign.node "x7" on_device because "node" : memref<8xf32>
  %w0 = assign.node "w0" on_device because "parameter" : memref<8x8xf32>
  %w1 = assign.node "w1" on_device because "parameter" : memref<8x8xf32>
  %w2 = assign.node "w2" on_device because "parameter" : memref<8x8xf32>
  %w3 = assign.node "w3" on_device because "parameter" : memref<8x8xf32>
  %w4 = assign.node "w4" on_device because "parameter" : memref<8x8xf32>
  %w5 = assign.node "w5" on_device because "parameter" : memref<8x8xf32>
  %w6 = assign.node "w6" on_device because "parameter" : memref<8x8xf32>
  %sum = assign.node "sum" on_device because "node" : memref<8xf32>
  assign.accum %x1[i] :add= mul(%w0[i, j], %x0[j]) over (i = 8, j = 8)
  assign.accum %sum[i] add= %x1[i] over (i = 8)
  assign.accum %x2[i] :add= mul(%w1[i, j], %x1[j]) over (i = 8, j = 8)
  assign.accum %sum[i] add= %x2[i] over (i = 8)
  assign.accum %x3[i] :add= mul(%w2[i, j], %x2[j]) over (i = 8, j = 8)
  assign.accum %sum[i] add= %x3[i] over (i = 8)
  assign.accum %x4[i] :add= mul(%w3[i, j], %x3[j]) over (i = 8, j = 8)
  assign.accum %sum[i] add= %x4[i] over (i = 8)
  assign.accum %x5[i] :add= mul(%w4[i, j], %x4[j]) over (i = 8, j = 8)
  assign.accum %sum[i] add= %x5[i] over (i = 8)
  assign.accum %x6[i] :add= mul(%w5[i, j], %x5[j]) over (i = 8, j = 8)
  assign.accum %sum[i] add= %x6[i] over (i = 8)
  assign.accum %x7[i] :add= mul(%w6[i, j], %x6[j]) over (i = 8, j = 8)
  assign.accum %sum[i] add= %x7[i] over (i = 8)
}
