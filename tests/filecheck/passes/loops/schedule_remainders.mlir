// RUN: ocannl-opt %s --cpu x86-64-v3 --split-input-file -p schedule | filecheck %s

// 1000 columns are 62 panels of two vectors, and 8 columns more, whose index maps begin at 992.
// CHECK-LABEL: loops.func @split
// CHECK:         loops.nest "w.packed1" (j_panel = 62, k = 1000, j = 16)
// CHECK-NEXT:      loops.load %w[k, j + 16*j_panel]
// CHECK:         loops.nest "y" (i = 1000, j_panel = 62, j = 16) schedule <order = (j_panel, j, i), {{.*}}rows = i : 6, lanes = j : 16
// CHECK:           loops.load %b[j + 16*j_panel]
// CHECK:           loops.store %{{.*}}, %y[i, j + 16*j_panel]
// CHECK:         loops.nest "w.packed" (k = 1000, j = 8)
// CHECK-NEXT:      loops.load %w[k, j + 992]
// CHECK:         loops.nest "y remainder" (i = 1000, j = 8)
// CHECK:           loops.load %b[j + 992]
// CHECK:           loops.store %{{.*}}, %y[i, j + 992]
// CHECK-NOT:     loops.nest
loops.func @split {
  %x = assign.node "x" on_device : memref<1000x1000xf32>
  %w = assign.node "w" on_device : memref<1000x1000xf32>
  %b = assign.node "b" on_device : memref<1000xf32>
  %y = assign.node "y" on_device : memref<1000x1000xf32>
  loops.nest "y" (i = 1000, j = 1000) {
    %sum = loops.reduce add (k = 1000) : f32 {
      %xv = loops.load %x[i, k]
      %wv = loops.load %w[k, j]
      %p = arith.mulf %xv, %wv : f32
      loops.yield %p
    }
    %bv = loops.load %b[j]
    %v = arith.addf %sum, %bv : f32
    loops.store %v, %y[i, j]
  }
}

// -----

// A small product is not worth two nests, and neither is one that whole tiles cover.
// CHECK-LABEL: loops.func @whole
// CHECK-NOT:     remainder
loops.func @whole {
  %x = assign.node "x" on_device : memref<1024x1024xf32>
  %w = assign.node "w" on_device : memref<1024x1024xf32>
  %y = assign.node "y" on_device : memref<1024x1024xf32>
  %s = assign.node "s" on_device : memref<40x100xf32>
  loops.nest "y" (i = 1024, j = 1024) {
    %sum = loops.reduce add (k = 1024) : f32 {
      %xv = loops.load %x[i, k]
      %wv = loops.load %w[k, j]
      %p = arith.mulf %xv, %wv : f32
      loops.yield %p
    }
    loops.store %sum, %y[i, j]
  }
  loops.nest "s" (i = 40, j = 100) {
    %sum = loops.reduce add (k = 30) : f32 {
      %xv = loops.load %x[i, k]
      %wv = loops.load %w[k, j]
      %p = arith.mulf %xv, %wv : f32
      loops.yield %p
    }
    loops.store %sum, %s[i, j]
  }
}

// -----

// A product that nothing stores has no tiles to choose.
// CHECK-LABEL: loops.func @unused
// CHECK-COUNT-1: loops.nest
// CHECK-NOT:     loops.nest
loops.func @unused {
  %x = assign.node "x" on_device : memref<192x300xf32>
  %w = assign.node "w" on_device : memref<300x768xf32>
  loops.nest "y" (i = 192, j = 768) {
    %sum = loops.reduce add (k = 300) : f32 {
      %xv = loops.load %x[i, k]
      %wv = loops.load %w[k, j]
      %p = arith.mulf %xv, %wv : f32
      loops.yield %p
    }
  }
}

// -----

// One column more than vectors have lanes is a sum along the other operand's rows.
// CHECK-LABEL: loops.func @one_more
// CHECK:         loops.nest "y" (i = 128, j = 16) schedule <{{.*}}lanes = j : 16>
// CHECK:         loops.nest "y remainder" (i = 128, j = 1) schedule <{{.*}}lanes = k : 8>
// CHECK:           loops.load %{{.*}}[k, j + 16]
// CHECK:           loops.store %{{.*}}, %y[i, j + 16]
loops.func @one_more {
  %x = assign.node "x" on_device : memref<128x128xf32>
  %w = assign.node "w" on_device : memref<128x17xf32>
  %y = assign.node "y" on_device : memref<128x17xf32>
  loops.nest "y" (i = 128, j = 17) {
    %sum = loops.reduce add (k = 128) : f32 {
      %xv = loops.load %x[i, k]
      %wv = loops.load %w[k, j]
      %p = arith.mulf %xv, %wv : f32
      loops.yield %p
    }
    loops.store %sum, %y[i, j]
  }
}

// -----

// The rows of a copy that is in no panels would lie on pages of their own, and be waited for.
// CHECK-LABEL: loops.func @transposed
// CHECK:         loops.nest "y" (i = 257, j_panel = 32, j = 8)
// CHECK:         loops.nest "y remainder" (i = 257, j = 1)
loops.func @transposed {
  %x = assign.node "x" on_device : memref<257x257xf64>
  %w = assign.node "w" on_device : memref<257x257xf64>
  %y = assign.node "y" on_device : memref<257x257xf64>
  loops.nest "y" (i = 257, j = 257) {
    %sum = loops.reduce add (k = 257) : f64 {
      %xv = loops.load %x[i, k]
      %wv = loops.load %w[j, k]
      %p = arith.mulf %xv, %wv : f64
      loops.yield %p
    }
    loops.store %sum, %y[i, j]
  }
}
