// RUN: ocannl-opt %s -p unfold-layers | filecheck %s

// What is left out reads "s" before it is stored, or after, as the layers that stay do; the first one has no steps here.
// CHECK-LABEL: loops.func @in_turn {
// CHECK:         loops.nest "w2"
// CHECK:         loops.nest "w3"
// CHECK:         loops.nest "w4"
// CHECK:         loops.nest "w5"
// CHECK:         loops.nest "w6"
// CHECK:         loops.nest "w7"
// CHECK:         loops.nest "w8"
// CHECK:         loops.nest "s"
// CHECK:         loops.nest "w2"
// CHECK:         loops.nest "w3"
// CHECK:         loops.nest "w4"
// CHECK:         loops.nest "w5"
// CHECK:         loops.nest "w6"
// CHECK:         loops.nest "w7"
// CHECK:         loops.nest "w8"
// CHECK-NOT:     loops.nest
loops.func @in_turn attributes {layers = [["w1", "w2", "w3", "w4", "w5", "w6", "w7", "w8"]]} {
  %w2 = assign.node "w2" on_device because "parameter" : memref<4x8xf32>
  %w7 = assign.node "w7" on_device because "parameter" : memref<4x8xf32>
  %w8 = assign.node "w8" on_device because "parameter" : memref<4x8xf32>
  %s = assign.node "s" on_device because "node" : memref<8xf32>
  %w1 = assign.node "w1" on_device because "parameter" : memref<4x8xf32>
  loops.nest "w2" (i = 4, j = 8) {
    %1 = loops.load %w2[i, j]
    %2 = loops.load %s[j]
    %3 = arith.addf %1, %2 : f32
    loops.store %3, %w2[i, j]
  }
  loops.nest "w7" (i = 4, j = 8) {
    %4 = loops.load %w7[i, j]
    %5 = loops.load %s[j]
    %6 = arith.addf %4, %5 : f32
    loops.store %6, %w7[i, j]
  }
  loops.nest "w8" (i = 4, j = 8) {
    %7 = loops.load %w8[i, j]
    %8 = loops.load %s[j]
    %9 = arith.addf %7, %8 : f32
    loops.store %9, %w8[i, j]
  }
  loops.nest "s" (j = 8) {
    %10 = loops.load %w8[0, j]
    loops.store %10, %s[j]
  }
  loops.nest "w2" (i = 4, j = 8) {
    %11 = loops.load %w2[i, j]
    %12 = loops.load %s[j]
    %13 = arith.mulf %11, %12 : f32
    loops.store %13, %w2[i, j]
  }
  loops.nest "w7" (i = 4, j = 8) {
    %14 = loops.load %w7[i, j]
    %15 = loops.load %s[j]
    %16 = arith.mulf %14, %15 : f32
    loops.store %16, %w7[i, j]
  }
  loops.nest "w8" (i = 4, j = 8) {
    %17 = loops.load %w8[i, j]
    %18 = loops.load %s[j]
    %19 = arith.mulf %17, %18 : f32
    loops.store %19, %w8[i, j]
  }
}
