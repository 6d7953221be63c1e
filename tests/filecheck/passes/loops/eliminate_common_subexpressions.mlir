// RUN: ocannl-opt %s --split-input-file -p eliminate-common-subexpressions | filecheck %s

// CHECK-LABEL: loops.func @scalars
// CHECK:         %x = loops.load %a[i]
// CHECK-NEXT:    %y = loops.load %a[-i + 2]
// CHECK-NEXT:    %0 = arith.addf %x, %y : f32
// CHECK-NEXT:    loops.store %0, %o0[i]
// CHECK-NEXT:    loops.store %0, %o1[i]
// CHECK-NEXT:    %{{.*}} = arith.subf %x, %y : f32
// CHECK-NEXT:    %{{.*}} = arith.subf %y, %x : f32
loops.func @scalars {
  %a = assign.node "a" on_device : memref<3xf32>
  %o0 = assign.node "o0" on_device : memref<3xf32>
  %o1 = assign.node "o1" on_device : memref<3xf32>
  %o2 = assign.node "o2" on_device : memref<3xf32>
  loops.nest "all" (i = 3) {
    %x = loops.load %a[i]
    %y = loops.load %a[-i + 2]
    %0 = arith.addf %x, %y : f32
    loops.store %0, %o0[i]
    %z = loops.load %a[i]
    %1 = arith.addf %y, %z : f32
    loops.store %1, %o1[i]
    %2 = arith.subf %x, %y : f32
    %3 = arith.subf %y, %z : f32
    %4 = arith.mulf %2, %3 : f32
    loops.store %4, %o2[i]
  }
}

// -----

// Zeros of different sign are different, and so are comparisons by different predicates.
// CHECK-LABEL: loops.func @different
// CHECK:         arith.constant 0.000000e+00
// CHECK:         arith.constant -0.000000e+00
// CHECK:         arith.cmpf olt
// CHECK:         arith.cmpf ole
loops.func @different {
  %a = assign.node "a" on_device : memref<3xf32>
  %o0 = assign.node "o0" on_device : memref<3xf32>
  %o1 = assign.node "o1" on_device : memref<3xf32>
  loops.nest "all" (i = 3) {
    %x = loops.load %a[i]
    %zero = arith.constant 0.0 : f32
    %minus_zero = arith.constant -0.0 : f32
    %c = arith.cmpf olt, %x, %zero : f32
    %d = arith.cmpf ole, %x, %zero : f32
    %0 = arith.select %c, %zero, %minus_zero : f32
    %1 = arith.select %d, %zero, %minus_zero : f32
    loops.store %0, %o0[i]
    loops.store %1, %o1[i]
  }
}

// -----

// A load after a store to its node sees the new value.
// CHECK-LABEL: loops.func @store_between
// CHECK:         %x = loops.load %a[i]
// CHECK:         loops.store %one, %a[i]
// CHECK-NEXT:    %y = loops.load %a[i]
// CHECK-NEXT:    arith.addf %x, %y
loops.func @store_between {
  %a = assign.node "a" on_device : memref<3xf32>
  %o0 = assign.node "o0" on_device : memref<3xf32>
  loops.nest "all" (i = 3) {
    %x = loops.load %a[i]
    %one = arith.constant 1.0 : f32
    loops.store %one, %a[i]
    %y = loops.load %a[i]
    %0 = arith.addf %x, %y : f32
    loops.store %0, %o0[i]
  }
}

// -----

// Equal reductions under other names are one; inside, what is known around them is used.
// CHECK-LABEL: loops.func @reductions
// CHECK:         %0 = loops.reduce add (j = 4, k = 2) : f32 {
// CHECK-NEXT:      %y = loops.load %b[j, k]
// CHECK-NEXT:      %p = arith.mulf %x, %y : f32
// CHECK-NEXT:      loops.yield %p
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.store %0, %o0[i]
// CHECK-NEXT:    loops.store %0, %o1[i]
// CHECK-NEXT:    loops.reduce max (j = 4, k = 2)
// CHECK:         loops.reduce add (j = 4)
loops.func @reductions {
  %a = assign.node "a" on_device : memref<3xf32>
  %b = assign.node "b" on_device : memref<4x2xf32>
  %o0 = assign.node "o0" on_device : memref<3xf32>
  %o1 = assign.node "o1" on_device : memref<3xf32>
  %o2 = assign.node "o2" on_device : memref<3xf32>
  %o3 = assign.node "o3" on_device : memref<3xf32>
  loops.nest "all" (i = 3) {
    %x = loops.load %a[i]
    %0 = loops.reduce add (j = 4, k = 2) : f32 {
      %z = loops.load %a[i]
      %y = loops.load %b[j, k]
      %p = arith.mulf %z, %y : f32
      loops.yield %p
    }
    loops.store %0, %o0[i]
    %1 = loops.reduce add (r = 4, s = 2) : f32 {
      %y = loops.load %b[r, s]
      %p = arith.mulf %y, %x : f32
      loops.yield %p
    }
    loops.store %1, %o1[i]
    %2 = loops.reduce max (j = 4, k = 2) : f32 {
      %y = loops.load %b[j, k]
      %p = arith.mulf %y, %x : f32
      loops.yield %p
    }
    loops.store %2, %o2[i]
    %3 = loops.reduce add (j = 4) : f32 {
      %y = loops.load %b[j, 1]
      %p = arith.mulf %y, %x : f32
      loops.yield %p
    }
    loops.store %3, %o3[i]
  }
}
