// RUN: ocannl-opt %s -p fold-layers,infer-projections,partition,lower-texpr-to-assign,lower-assign-to-loops -o %t.mlir
// RUN: ocannl-opt %t.mlir -p unfold-layers | filecheck %s
// RUN: ocannl-opt %s -p infer-projections,partition,lower-texpr-to-assign,lower-assign-to-loops | filecheck %s
// RUN: ocannl-opt %t.mlir | filecheck %s --check-prefix FOLDED

// FOLDED-LABEL: loops.func @exchange
// FOLDED-COUNT-4: loops.collective all_
// FOLDED-NOT:   loops.collective

// Each layer exchanges its own terms, between the nests that compute and add them.
// CHECK-LABEL: loops.func @exchange indices (data.rank = 2) mesh (data = 2) {
// CHECK-DAG:     "w4" on_device split 1 of 8 over "data" because "parameter" : memref<8x4xf32>
// CHECK-DAG:     "x4_rows" local because "of a collective" : memref<2x4xf32>
// CHECK:         loops.nest "x1_part" (o = 8) {
// CHECK:             loops.load %w1[o, k]
// CHECK-NEXT:        loops.load %x0[k]
// CHECK:         loops.collective all_to_all %x1_rows from %x1_part over "data"
// CHECK-NEXT:    loops.nest "x1"
// CHECK:             loops.load %x1_rows[r,
// CHECK:         loops.nest "x2_part" (o = 8) {
// CHECK:             loops.load %w2[o, k]
// CHECK-NEXT:        loops.load %x1[k]
// CHECK:         loops.collective all_to_all %x2_rows from %x2_part over "data"
// CHECK-NEXT:    loops.nest "x2"
// CHECK:             loops.load %x2_rows[r,
// CHECK:         loops.nest "x3_part" (o = 8) {
// CHECK:             loops.load %w3[o, k]
// CHECK-NEXT:        loops.load %x2[k]
// CHECK:         loops.collective all_to_all %x3_rows from %x3_part over "data"
// CHECK-NEXT:    loops.nest "x3"
// CHECK:             loops.load %x3_rows[r,
// CHECK:         loops.nest "x4_part" (o = 8) {
// CHECK:             loops.load %w4[o, k]
// CHECK-NEXT:        loops.load %x3[k]
// CHECK:         loops.collective all_to_all %x4_rows from %x4_part over "data"
// CHECK-NEXT:    loops.nest "x4"
// CHECK:             loops.load %x4_rows[r,
// CHECK:         loops.nest "x5_part" (o = 8) {
// CHECK:             loops.load %w5[o, k]
// CHECK-NEXT:        loops.load %x4[k]
// CHECK:         loops.collective all_to_all %x5_rows from %x5_part over "data"
// CHECK-NEXT:    loops.nest "x5"
// CHECK:             loops.load %x5_rows[r,
// CHECK:         loops.nest "x6_part" (o = 8) {
// CHECK:             loops.load %w6[o, k]
// CHECK-NEXT:        loops.load %x5[k]
// CHECK:         loops.collective all_gather %x6_rows from %x6_part over "data"
// CHECK-NEXT:    loops.nest "x6"
// CHECK:             loops.load %x6_rows[r,
// CHECK-NOT:     loops.collective
texpr.routine @exchange mesh (data = 2) {
  %x0 = texpr.data "x0" : !texpr.tensor<8, f32>
  %w1 = texpr.param "w1" shard <"data" = input> : !texpr.tensor<8 -> 8, f32>
  %x1 = texpr.apply add= mul(%w1, %x0) logic "@" : !texpr.tensor<8, f32>
  %w2 = texpr.param "w2" shard <"data" = input> : !texpr.tensor<8 -> 8, f32>
  %x2 = texpr.apply add= mul(%w2, %x1) logic "@" : !texpr.tensor<8, f32>
  %w3 = texpr.param "w3" shard <"data" = input> : !texpr.tensor<8 -> 8, f32>
  %x3 = texpr.apply add= mul(%w3, %x2) logic "@" : !texpr.tensor<8, f32>
  %w4 = texpr.param "w4" shard <"data" = input> : !texpr.tensor<8 -> 8, f32>
  %x4 = texpr.apply add= mul(%w4, %x3) logic "@" : !texpr.tensor<8, f32>
  %w5 = texpr.param "w5" shard <"data" = input> : !texpr.tensor<8 -> 8, f32>
  %x5 = texpr.apply add= mul(%w5, %x4) logic "@" : !texpr.tensor<8, f32>
  %w6 = texpr.param "w6" shard <"data" = input> : !texpr.tensor<8 -> 8, f32>
  %x6 = texpr.apply add= mul(%w6, %x5) logic "@" : !texpr.tensor<8, f32>
  texpr.forward %x6
}
