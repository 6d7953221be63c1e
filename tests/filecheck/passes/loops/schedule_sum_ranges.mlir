// RUN: ocannl-opt %s --cpu sapphirerapids --split-input-file -p schedule | filecheck %s

// The rows of a whole sum are so long that a strip has few: it is added up in ranges, each with its own panels.
// CHECK-LABEL: loops.func @ranges
// CHECK:         loops.nest "w.packed{{.*}}" (j_panel = 128, k = 704, j = 16)
// CHECK-NEXT:      loops.load %w[k, j + 16*j_panel]
// CHECK:         loops.nest "y" (i = 2048, j_panel = 128, j = 16) schedule <{{.*}}strips = i : 96>
// CHECK-NEXT:      [[FIRST:%.*]] = loops.reduce add (k = 704) blocks 256
// CHECK:           loops.store [[FIRST]], %y[i, j + 16*j_panel]
// CHECK:         loops.nest "y from 704" (i = 2048, j_panel = 128, j = 16) schedule <{{.*}}strips = i : 96>
// CHECK-NEXT:      [[NEXT:%.*]] = loops.reduce add (k = 704) blocks 256
// CHECK-NEXT:        loops.load %x[i, k + 704]
// CHECK:           [[OLD:%.*]] = loops.load %y[i, j + 16*j_panel]
// CHECK-NEXT:      [[NEW:%.*]] = arith.addf [[OLD]], [[NEXT]]
// CHECK-NEXT:      loops.store [[NEW]], %y[i, j + 16*j_panel]
// CHECK:         loops.nest "y from 1408"
// CHECK-NEXT:      loops.reduce add (k = 640) blocks 256
// CHECK-NEXT:        loops.load %x[i, k + 1408]
// CHECK-NOT:     loops.nest
loops.func @ranges {
  %x = assign.node "x" on_device : memref<2048x2048xf64>
  %w = assign.node "w" on_device : memref<2048x2048xf64>
  %y = assign.node "y" on_device : memref<2048x2048xf64>
  loops.nest "y" (i = 2048, j = 2048) {
    %sum = loops.reduce add (k = 2048) : f64 {
      %xv = loops.load %x[i, k]
      %wv = loops.load %w[k, j]
      %p = arith.mulf %xv, %wv : f64
      loops.yield %p
    }
    loops.store %sum, %y[i, j]
  }
}

// -----

// The columns that panels do not cover are stored before ranges add to the others.
// CHECK-LABEL: loops.func @remainder
// CHECK:         loops.nest "y" (i = 1543, j_panel = 96, j = 16)
// CHECK:         loops.nest "y remainder" (i = 1543, j = 7)
// CHECK:         loops.nest "y from 832" (i = 1543, j_panel = 96, j = 16)
loops.func @remainder {
  %x = assign.node "x" on_device : memref<1543x1543xf64>
  %w = assign.node "w" on_device : memref<1543x1543xf64>
  %y = assign.node "y" on_device : memref<1543x1543xf64>
  loops.nest "y" (i = 1543, j = 1543) {
    %sum = loops.reduce add (k = 1543) : f64 {
      %xv = loops.load %x[i, k]
      %wv = loops.load %w[k, j]
      %p = arith.mulf %xv, %wv : f64
      loops.yield %p
    }
    loops.store %sum, %y[i, j]
  }
}

// -----

// A nest that does more than to store the sum needs all of it.
// CHECK-LABEL: loops.func @whole
// CHECK-NOT:     from
loops.func @whole {
  %x = assign.node "x" on_device : memref<2048x2048xf64>
  %w = assign.node "w" on_device : memref<2048x2048xf64>
  %y = assign.node "y" on_device : memref<2048x2048xf64>
  loops.nest "y" (i = 2048, j = 2048) {
    %sum = loops.reduce add (k = 2048) : f64 {
      %xv = loops.load %x[i, k]
      %wv = loops.load %w[k, j]
      %p = arith.mulf %xv, %wv : f64
      loops.yield %p
    }
    %n = arith.negf %sum : f64
    loops.store %n, %y[i, j]
  }
}
