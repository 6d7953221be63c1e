// RUN: ocannl-opt %s --split-input-file -p reuse-reductions | filecheck %s

// Variables have other names; values from around the reductions are equal too.
// CHECK-LABEL: loops.func @equal
// CHECK:         loops.nest "s" (i = 3)
// CHECK:           loops.reduce
// CHECK:         loops.nest "y" (j = 3) {
// CHECK-NEXT:      %{{.*}} = loops.load %s[j + 1]
// CHECK-NEXT:      %{{.*}} = arith.negf
// CHECK-NEXT:      loops.store %{{.*}}, %y[j]
loops.func @equal {
  %x = assign.node "x" constant because "data" : memref<8x3xf32>
  %w = assign.node "w" constant because "data" : memref<3xf32>
  %s = assign.node "s" local because "intermediate value" : memref<4xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<3xf32>
  loops.nest "s" (i = 3) {
    %0 = loops.load %w[i]
    %1 = loops.reduce add (b = 8) : f32 {
      %2 = loops.load %x[b, i]
      %3 = arith.mulf %2, %0 : f32
      loops.yield %3
    }
    loops.store %1, %s[i + 1]
  }
  loops.nest "y" (j = 3) {
    %one = arith.constant 1.0 : f32
    %0 = loops.load %w[j]
    %1 = loops.reduce add (k = 8) : f32 {
      %2 = loops.load %x[k, j]
      %3 = arith.mulf %0, %2 : f32
      loops.yield %3
    }
    %4 = arith.negf %1 : f32
    loops.store %4, %y[j]
  }
}

// -----

// The reduction reads what has been stored to since, or its result has been.
// CHECK-LABEL: loops.func @overwritten
// CHECK-COUNT-4: loops.reduce
// CHECK-NOT:     loops.load %s
loops.func @overwritten {
  %x = assign.node "x" on_device because "parameter" : memref<8x3xf32>
  %s = assign.node "s" on_device because "computed by forward" : memref<3xf32>
  %t = assign.node "t" on_device because "computed by forward" : memref<3xf32>
  %u = assign.node "u" on_device because "computed by forward" : memref<3xf32>
  loops.nest "s" (i = 3) {
    %0 = loops.reduce add (b = 8) : f32 {
      %1 = loops.load %x[b, i]
      loops.yield %1
    }
    loops.store %0, %s[i]
  }
  loops.nest "x" (b = 8, i = 3) {
    %zero = arith.constant 0.0 : f32
    loops.store %zero, %x[b, i]
  }
  loops.nest "t" (i = 3) {
    %0 = loops.reduce add (b = 8) : f32 {
      %1 = loops.load %x[b, i]
      loops.yield %1
    }
    loops.store %0, %t[i]
  }
  loops.nest "t again" (i = 3) {
    %one = arith.constant 1.0 : f32
    loops.store %one, %t[i]
  }
  loops.nest "u" (i = 3) {
    %0 = loops.reduce add (b = 8) : f32 {
      %1 = loops.load %x[b, i]
      loops.yield %1
    }
    loops.store %0, %u[i]
  }
  loops.nest "u of other sizes" (i = 2) {
    %0 = loops.reduce add (b = 8) : f32 {
      %1 = loops.load %x[b, i]
      loops.yield %1
    }
    loops.store %0, %s[i]
  }
}

// -----

// What is stored would be overwritten while it is read: at other points than those that read it.
// CHECK-LABEL: loops.func @overwrites_what_it_would_read
// CHECK-COUNT-2: loops.reduce
// CHECK-NOT:     loops.load %s
loops.func @overwrites_what_it_would_read {
  %x = assign.node "x" on_device because "parameter" : memref<8x3xf32>
  %s = assign.node "s" on_device because "computed by forward" : memref<3xf32>
  loops.nest "s" (i = 3) {
    %0 = loops.reduce add (b = 8) : f32 {
      %1 = loops.load %x[b, i]
      loops.yield %1
    }
    loops.store %0, %s[i]
  }
  loops.nest "s reversed" (i = 3) {
    %0 = loops.reduce add (b = 8) : f32 {
      %1 = loops.load %x[b, i]
      loops.yield %1
    }
    %2 = arith.negf %0 : f32
    loops.store %2, %s[-i + 2]
  }
}
