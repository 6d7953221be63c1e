// RUN: ocannl-opt %s --split-input-file -p fold-layers,lower-assign-to-loops,unfold-layers | filecheck %s
// RUN: ocannl-opt %s --split-input-file -p lower-assign-to-loops | filecheck %s

// A step forward and one back for each layer, of which some are left out meanwhile: each is in its place again.
// CHECK-LABEL: loops.func @there_and_back {
// CHECK-DAG:     "x3" on_device
// CHECK-DAG:     "w4" on_device
// CHECK:         loops.nest "x1" (i = 8) {
// CHECK-NEXT:      loops.reduce add (j = 8)
// CHECK-NEXT:        loops.load %w0[i, j]
// CHECK-NEXT:        loops.load %x0[j]
// CHECK:           loops.store %{{.*}}, %x1[i]
// CHECK:         loops.nest "x2"
// CHECK:             loops.load %w1[i, j]
// CHECK-NEXT:        loops.load %x1[j]
// CHECK:           loops.store %{{.*}}, %x2[i]
// CHECK:         loops.nest "x3"
// CHECK:             loops.load %w2[i, j]
// CHECK-NEXT:        loops.load %x2[j]
// CHECK:           loops.store %{{.*}}, %x3[i]
// CHECK:         loops.nest "x4"
// CHECK:             loops.load %w3[i, j]
// CHECK-NEXT:        loops.load %x3[j]
// CHECK:           loops.store %{{.*}}, %x4[i]
// CHECK:         loops.nest "x5"
// CHECK:             loops.load %w4[i, j]
// CHECK-NEXT:        loops.load %x4[j]
// CHECK:           loops.store %{{.*}}, %x5[i]
// CHECK:         loops.nest "x6"
// CHECK:             loops.load %w5[i, j]
// CHECK-NEXT:        loops.load %x5[j]
// CHECK:           loops.store %{{.*}}, %x6[i]
// CHECK:         loops.nest "x7"
// CHECK:             loops.load %w6[i, j]
// CHECK-NEXT:        loops.load %x6[j]
// CHECK:           loops.store %{{.*}}, %x7[i]
// CHECK:         loops.nest "g6"
// CHECK:             loops.load %w6[i, j]
// CHECK-NEXT:        loops.load %g7[i]
// CHECK:           loops.store %{{.*}}, %g6[j]
// CHECK:         loops.nest "g5"
// CHECK:             loops.load %w5[i, j]
// CHECK-NEXT:        loops.load %g6[i]
// CHECK:           loops.store %{{.*}}, %g5[j]
// CHECK:         loops.nest "g4"
// CHECK:             loops.load %w4[i, j]
// CHECK-NEXT:        loops.load %g5[i]
// CHECK:           loops.store %{{.*}}, %g4[j]
// CHECK:         loops.nest "g3"
// CHECK:             loops.load %w3[i, j]
// CHECK-NEXT:        loops.load %g4[i]
// CHECK:           loops.store %{{.*}}, %g3[j]
// CHECK:         loops.nest "g2"
// CHECK:             loops.load %w2[i, j]
// CHECK-NEXT:        loops.load %g3[i]
// CHECK:           loops.store %{{.*}}, %g2[j]
// CHECK:         loops.nest "g1"
// CHECK:             loops.load %w1[i, j]
// CHECK-NEXT:        loops.load %g2[i]
// CHECK:           loops.store %{{.*}}, %g1[j]
// CHECK:         loops.nest "g0"
// CHECK:             loops.load %w0[i, j]
// CHECK-NEXT:        loops.load %g1[i]
// CHECK:           loops.store %{{.*}}, %g0[j]
// CHECK-NOT:     loops.nest
assign.routine @there_and_back {
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
  %g0 = assign.node "g0" on_device because "gradient" : memref<8xf32>
  %g1 = assign.node "g1" on_device because "gradient" : memref<8xf32>
  %g2 = assign.node "g2" on_device because "gradient" : memref<8xf32>
  %g3 = assign.node "g3" on_device because "gradient" : memref<8xf32>
  %g4 = assign.node "g4" on_device because "gradient" : memref<8xf32>
  %g5 = assign.node "g5" on_device because "gradient" : memref<8xf32>
  %g6 = assign.node "g6" on_device because "gradient" : memref<8xf32>
  %g7 = assign.node "g7" on_device because "gradient" : memref<8xf32>
  assign.accum %x1[i] :add= mul(%w0[i, j], %x0[j]) over (i = 8, j = 8)
  assign.accum %x2[i] :add= mul(%w1[i, j], %x1[j]) over (i = 8, j = 8)
  assign.accum %x3[i] :add= mul(%w2[i, j], %x2[j]) over (i = 8, j = 8)
  assign.accum %x4[i] :add= mul(%w3[i, j], %x3[j]) over (i = 8, j = 8)
  assign.accum %x5[i] :add= mul(%w4[i, j], %x4[j]) over (i = 8, j = 8)
  assign.accum %x6[i] :add= mul(%w5[i, j], %x5[j]) over (i = 8, j = 8)
  assign.accum %x7[i] :add= mul(%w6[i, j], %x6[j]) over (i = 8, j = 8)
  assign.accum %g6[j] :add= mul(%w6[i, j], %g7[i]) over (i = 8, j = 8)
  assign.accum %g5[j] :add= mul(%w5[i, j], %g6[i]) over (i = 8, j = 8)
  assign.accum %g4[j] :add= mul(%w4[i, j], %g5[i]) over (i = 8, j = 8)
  assign.accum %g3[j] :add= mul(%w3[i, j], %g4[i]) over (i = 8, j = 8)
  assign.accum %g2[j] :add= mul(%w2[i, j], %g3[i]) over (i = 8, j = 8)
  assign.accum %g1[j] :add= mul(%w1[i, j], %g2[i]) over (i = 8, j = 8)
  assign.accum %g0[j] :add= mul(%w0[i, j], %g1[i]) over (i = 8, j = 8)
}
