// RUN: ocannl-opt %s --cpu x86-64-v4 --split-input-file -p schedule | filecheck %s

// A panel of 5257 steps leaves no room in the second-level cache: the sum is added up in blocks of 256, and the 137
// steps behind them with the results. Threads share the columns, whose panels each of them makes for a block.
// CHECK-LABEL: loops.func @deep
// CHECK:         loops.nest "y.sums reset"
// CHECK:         loops.group "y.sums" (j_block = 6, k_block = 20) schedule <parallel = (j_block : 1)> {
// CHECK:           assign.node "w.packed" local {{.*}} : memref<4x256x32xf32>
// CHECK:           loops.nest "y.sums" (i = 192, j_panel = 4, j = 32) schedule <order = (j_panel, j, i), rows = i : {{8|12}}, lanes = j : 32> {
// CHECK-NEXT:        loops.reduce add (k = 256)
// CHECK:         loops.group "y" (j_panel = 24)
// CHECK:             loops.load %w[k1 + 5120, j + 32*j_panel]
// CHECK:           loops.nest "y" (i = 192, j = 32)
// CHECK-NEXT:        [[SUM:%[a-z0-9_]+]] = loops.load
// CHECK-NEXT:        [[REST:%[a-z0-9_]+]] = loops.reduce add (k1 = 137)
// CHECK-NEXT:          loops.load %x[i, k1 + 5120]
// CHECK:             arith.addf [[SUM]], [[REST]] : f32
loops.func @deep {
  %x = assign.node "x" on_device : memref<192x5257xf32>
  %w = assign.node "w" on_device : memref<5257x768xf32>
  %y = assign.node "y" on_device : memref<192x768xf32>
  loops.nest "y" (i = 192, j = 768) {
    %sum = loops.reduce add (k = 5257) : f32 {
      %xv = loops.load %x[i, k]
      %wv = loops.load %w[k, j]
      %p = arith.mulf %xv, %wv : f32
      loops.yield %p
    }
    loops.store %sum, %y[i, j]
  }
}

// -----

// Not rows that stand a power of two apart, which meet in few sets of that cache, and no sums of fewer points.
// CHECK-LABEL: loops.func @power_of_two
// CHECK-NOT:     loops.group "y.sums"
// CHECK-LABEL: loops.func @shallow
// CHECK-NOT:     loops.group "y.sums"
loops.func @power_of_two {
  %x = assign.node "x" on_device : memref<192x8192xf32>
  %w = assign.node "w" on_device : memref<8192x768xf32>
  %y = assign.node "y" on_device : memref<192x768xf32>
  loops.nest "y" (i = 192, j = 768) {
    %sum = loops.reduce add (k = 8192) : f32 {
      %xv = loops.load %x[i, k]
      %wv = loops.load %w[k, j]
      %p = arith.mulf %xv, %wv : f32
      loops.yield %p
    }
    loops.store %sum, %y[i, j]
  }
}
loops.func @shallow {
  %x = assign.node "x" on_device : memref<192x1600xf32>
  %w = assign.node "w" on_device : memref<1600x768xf32>
  %y = assign.node "y" on_device : memref<192x768xf32>
  loops.nest "y" (i = 192, j = 768) {
    %sum = loops.reduce add (k = 1600) : f32 {
      %xv = loops.load %x[i, k]
      %wv = loops.load %w[k, j]
      %p = arith.mulf %xv, %wv : f32
      loops.yield %p
    }
    loops.store %sum, %y[i, j]
  }
}
