// RUN: ocannl-opt %s -p fold-layers,infer-projections,differentiate,lower-texpr-to-assign,lower-assign-to-loops -o %t.mlir
// RUN: ocannl-opt %t.mlir -p unfold-layers | filecheck %s
// RUN: ocannl-opt %s -p infer-projections,differentiate,lower-texpr-to-assign,lower-assign-to-loops | filecheck %s

// A step forward for each layer, and one back for its input; then those for its parameter. Some are left out meanwhile:
// each is in its place again.
// CHECK-LABEL: loops.func @there_and_back {
// CHECK-DAG:     "x3" local
// CHECK-DAG:     "w4" on_device
// CHECK-DAG:     "w5.grad" on_device
// CHECK:         loops.nest "x1" (o = 8) {
// CHECK:             loops.load %w1[o, k]
// CHECK-NEXT:        loops.load %x0[k]
// CHECK:           loops.store %{{.*}}, %x1[o]
// CHECK:         loops.nest "x2" (o = 8) {
// CHECK:             loops.load %w2[o, k]
// CHECK-NEXT:        loops.load %x1[k]
// CHECK:           loops.store %{{.*}}, %x2[o]
// CHECK:         loops.nest "x3" (o = 8) {
// CHECK:             loops.load %w3[o, k]
// CHECK-NEXT:        loops.load %x2[k]
// CHECK:           loops.store %{{.*}}, %x3[o]
// CHECK:         loops.nest "x4" (o = 8) {
// CHECK:             loops.load %w4[o, k]
// CHECK-NEXT:        loops.load %x3[k]
// CHECK:           loops.store %{{.*}}, %x4[o]
// CHECK:         loops.nest "x5" (o = 8) {
// CHECK:             loops.load %w5[o, k]
// CHECK-NEXT:        loops.load %x4[k]
// CHECK:           loops.store %{{.*}}, %x5[o]
// CHECK:         loops.nest "x6" (o = 8) {
// CHECK:             loops.load %w6[o, k]
// CHECK-NEXT:        loops.load %x5[k]
// CHECK:           loops.store %{{.*}}, %x6[o]
// CHECK:         loops.nest "x7" (o = 8) {
// CHECK:             loops.load %w7[o, k]
// CHECK-NEXT:        loops.load %x6[k]
// CHECK:           loops.store %{{.*}}, %x7[o]
// CHECK:         loops.nest "x7.grad"
// CHECK:         loops.nest "x6_grad" (k = 8) {
// CHECK:             loops.load %g[o]
// CHECK-NEXT:        loops.load %w7[o, k]
// CHECK:           loops.store %{{.*}}, %x6_grad[k]
// CHECK:         loops.nest "x5_grad" (k = 8) {
// CHECK:             loops.load %x6_grad[o]
// CHECK-NEXT:        loops.load %w6[o, k]
// CHECK:           loops.store %{{.*}}, %x5_grad[k]
// CHECK:         loops.nest "x4_grad" (k = 8) {
// CHECK:             loops.load %x5_grad[o]
// CHECK-NEXT:        loops.load %w5[o, k]
// CHECK:           loops.store %{{.*}}, %x4_grad[k]
// CHECK:         loops.nest "x3_grad" (k = 8) {
// CHECK:             loops.load %x4_grad[o]
// CHECK-NEXT:        loops.load %w4[o, k]
// CHECK:           loops.store %{{.*}}, %x3_grad[k]
// CHECK:         loops.nest "x2_grad" (k = 8) {
// CHECK:             loops.load %x3_grad[o]
// CHECK-NEXT:        loops.load %w3[o, k]
// CHECK:           loops.store %{{.*}}, %x2_grad[k]
// CHECK:         loops.nest "x1_grad" (k = 8) {
// CHECK:             loops.load %x2_grad[o]
// CHECK-NEXT:        loops.load %w2[o, k]
// CHECK:           loops.store %{{.*}}, %x1_grad[k]
// CHECK:         loops.nest "w1_grad" (o = 8, k = 8) {
// CHECK-NEXT:      loops.load %x1_grad[o]
// CHECK-NEXT:      loops.load %x0[k]
// CHECK:         loops.nest "w1.grad" (o = 8, i = 8) {
// CHECK:         loops.nest "w2_grad" (o = 8, k = 8) {
// CHECK-NEXT:      loops.load %x2_grad[o]
// CHECK-NEXT:      loops.load %x1[k]
// CHECK:         loops.nest "w2.grad" (o = 8, i = 8) {
// CHECK:         loops.nest "w3_grad" (o = 8, k = 8) {
// CHECK-NEXT:      loops.load %x3_grad[o]
// CHECK-NEXT:      loops.load %x2[k]
// CHECK:         loops.nest "w3.grad" (o = 8, i = 8) {
// CHECK:         loops.nest "w4_grad" (o = 8, k = 8) {
// CHECK-NEXT:      loops.load %x4_grad[o]
// CHECK-NEXT:      loops.load %x3[k]
// CHECK:         loops.nest "w4.grad" (o = 8, i = 8) {
// CHECK:         loops.nest "w5_grad" (o = 8, k = 8) {
// CHECK-NEXT:      loops.load %x5_grad[o]
// CHECK-NEXT:      loops.load %x4[k]
// CHECK:         loops.nest "w5.grad" (o = 8, i = 8) {
// CHECK:         loops.nest "w6_grad" (o = 8, k = 8) {
// CHECK-NEXT:      loops.load %x6_grad[o]
// CHECK-NEXT:      loops.load %x5[k]
// CHECK:         loops.nest "w6.grad" (o = 8, i = 8) {
// CHECK:         loops.nest "w7_grad" (o = 8, k = 8) {
// CHECK-NEXT:      loops.load %g[o]
// CHECK-NEXT:      loops.load %x6[k]
// CHECK:         loops.nest "w7.grad" (o = 8, i = 8) {
// CHECK-NOT:     loops.nest
texpr.routine @there_and_back {
  %x0 = texpr.data "x0" : !texpr.tensor<8, f32>
  %w1 = texpr.param "w1" : !texpr.tensor<8 -> 8, f32>
  %x1 = texpr.apply add= mul(%w1, %x0) logic "@" : !texpr.tensor<8, f32>
  %w2 = texpr.param "w2" : !texpr.tensor<8 -> 8, f32>
  %x2 = texpr.apply add= mul(%w2, %x1) logic "@" : !texpr.tensor<8, f32>
  %w3 = texpr.param "w3" : !texpr.tensor<8 -> 8, f32>
  %x3 = texpr.apply add= mul(%w3, %x2) logic "@" : !texpr.tensor<8, f32>
  %w4 = texpr.param "w4" : !texpr.tensor<8 -> 8, f32>
  %x4 = texpr.apply add= mul(%w4, %x3) logic "@" : !texpr.tensor<8, f32>
  %w5 = texpr.param "w5" : !texpr.tensor<8 -> 8, f32>
  %x5 = texpr.apply add= mul(%w5, %x4) logic "@" : !texpr.tensor<8, f32>
  %w6 = texpr.param "w6" : !texpr.tensor<8 -> 8, f32>
  %x6 = texpr.apply add= mul(%w6, %x5) logic "@" : !texpr.tensor<8, f32>
  %w7 = texpr.param "w7" : !texpr.tensor<8 -> 8, f32>
  %x7 = texpr.apply add= mul(%w7, %x6) logic "@" : !texpr.tensor<8, f32>
  %one = texpr.constant 1.0 : !texpr.tensor<8, f32>
  %g = texpr.grad %x7 : !texpr.tensor<8, f32>
  texpr.forward %x7
  texpr.assign %g = %one logic "."
  texpr.backprop %x7
}
