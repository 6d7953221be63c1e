// RUN: ocannl-opt %s --split-input-file -p loop-invariant-code-motion | filecheck %s

// CHECK-LABEL: loops.func @invariants
// CHECK:         loops.nest "all" (i = 3) {
// CHECK-NEXT:      %x = loops.load %a[i]
// CHECK-NEXT:      %e = math.exp %x : f32
// CHECK-NEXT:      %0 = loops.reduce add (j = 4) : f32 {
// CHECK-NEXT:        %y = loops.load %b[j]
// CHECK-NEXT:        %p = arith.mulf %e, %y : f32
// CHECK-NEXT:        loops.yield %p
// CHECK-NEXT:      }
loops.func @invariants {
  %a = assign.node "a" on_device : memref<3xf32>
  %b = assign.node "b" on_device : memref<4xf32>
  %o = assign.node "o" on_device : memref<3xf32>
  loops.nest "all" (i = 3) {
    %0 = loops.reduce add (j = 4) : f32 {
      %y = loops.load %b[j]
      %x = loops.load %a[i]
      %e = math.exp %x : f32
      %p = arith.mulf %e, %y : f32
      loops.yield %p
    }
    loops.store %0, %o[i]
  }
}

// -----

// From an inner reduction to the place where a value varies; an inner reduction as a whole.
// CHECK-LABEL: loops.func @nested
// CHECK:         loops.nest "all" (i = 3) {
// CHECK-NEXT:      %s = loops.reduce add (l = 4) : f32 {
// CHECK-NEXT:        %v = loops.load %b[l]
// CHECK-NEXT:        loops.yield %v
// CHECK-NEXT:      }
// CHECK-NEXT:      %z = loops.load %a[i]
// CHECK-NEXT:      %0 = loops.reduce max (j = 4) : f32 {
// CHECK-NEXT:        %y = loops.load %b[j]
// CHECK-NEXT:        %m = arith.maximumf %y, %z : f32
// CHECK-NEXT:        %t = loops.reduce add (k = 4) : f32 {
// CHECK-NEXT:          %w = loops.load %b[k]
// CHECK-NEXT:          %q = arith.mulf %w, %m : f32
// CHECK-NEXT:          loops.yield %q
// CHECK-NEXT:        }
// CHECK-NEXT:        %r = arith.addf %s, %t : f32
// CHECK-NEXT:        loops.yield %r
loops.func @nested {
  %a = assign.node "a" on_device : memref<3xf32>
  %b = assign.node "b" on_device : memref<4xf32>
  %o = assign.node "o" on_device : memref<3xf32>
  loops.nest "all" (i = 3) {
    %0 = loops.reduce max (j = 4) : f32 {
      %s = loops.reduce add (l = 4) : f32 {
        %v = loops.load %b[l]
        loops.yield %v
      }
      %t = loops.reduce add (k = 4) : f32 {
        %y = loops.load %b[j]
        %z = loops.load %a[i]
        %m = arith.maximumf %y, %z : f32
        %w = loops.load %b[k]
        %q = arith.mulf %w, %m : f32
        loops.yield %q
      }
      %r = arith.addf %s, %t : f32
      loops.yield %r
    }
    loops.store %0, %o[i]
  }
}

// -----

// The body of a reduction over nothing never runs.
// CHECK-LABEL: loops.func @no_points
// CHECK:         loops.nest "all" (i = 3) {
// CHECK-NEXT:      %0 = loops.reduce add (j = 0) : f32 {
// CHECK-NEXT:        %x = loops.load %a[i]
loops.func @no_points {
  %a = assign.node "a" on_device : memref<3xf32>
  %o = assign.node "o" on_device : memref<3xf32>
  loops.nest "all" (i = 3) {
    %0 = loops.reduce add (j = 0) : f32 {
      %x = loops.load %a[i]
      loops.yield %x
    }
    loops.store %0, %o[i]
  }
}
