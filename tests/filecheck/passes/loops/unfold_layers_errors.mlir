// RUN: ocannl-opt %s -p unfold-layers --split-input-file --verify-diagnostics | filecheck %s

// One layer reads "s" before it is stored, another one after: nothing tells what those between them do.
// CHECK: what passes made of equal layers differs: do without `fold-layers`
loops.func @order attributes {layers = [["w1", "w2", "w3", "w4", "w5", "w6", "w7", "w8"]]} {
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
  loops.nest "s" (j = 8) {
    %10 = loops.load %w8[0, j]
    loops.store %10, %s[j]
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
}

// -----

// Nothing tells which steps belong to layers.
// CHECK: what passes made of equal layers differs: do without `fold-layers`
loops.func @unnamed attributes {layers = [["w1", "w2", "w3", "w4", "w5", "w6"]]} {
}

// -----

// CHECK: `layers` has as many labels in each row, one for each of 5 layers or more
loops.func @none attributes {layers = []} {
}

// -----

// CHECK: `layers` has as many labels in each row, one for each of 5 layers or more
loops.func @uneven attributes {layers = [["w1", "w2", "w3", "w4", "w5"], ["x1"]]} {
}
