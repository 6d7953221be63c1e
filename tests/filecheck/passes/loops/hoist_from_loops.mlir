// RUN: ocannl-opt %s -p hoist-from-loops | filecheck %s

// What depends on the index, or on what the body writes, stays; what only a nest that moves needs leaves the body.
// CHECK-LABEL: loops.func @step indices (t = 4, n) {
// CHECK-NEXT:    %w = assign.node "w" on_device
// CHECK-NEXT:    %h = assign.node "h" on_device
// CHECK-NEXT:    %packed = assign.node "packed" on_device because "computed before the loop" : memref<8xf32>
// CHECK-NEXT:    %x = assign.node "x" local
// CHECK-NEXT:    %copy = assign.node "copy" local
// CHECK-NEXT:    loops.nest "x" (i = 8) {
// CHECK:         loops.nest "copy" (i = 8) {
// CHECK:         loops.nest "h" (i = 8) {
loops.func @step indices (t = 4, n) {
  %w = assign.node "w" on_device : memref<8xf32>
  %h = assign.node "h" on_device : memref<8xf32>
  %half = assign.node "half" local : memref<8xf32>
  %packed = assign.node "packed" local : memref<8xf32>
  %x = assign.node "x" local : memref<8xf32>
  %copy = assign.node "copy" local : memref<8xf32>
  loops.nest "half" (i = 8) {
    %0 = loops.load %w[i]
    %1 = loops.index n : f32
    %2 = arith.mulf %0, %1 : f32
    loops.store %2, %half[i]
  }
  loops.nest "packed" (i = 8) {
    %0 = loops.load %half[-i + 7]
    loops.store %0, %packed[i]
  }
  loops.nest "x" (i = 8) {
    %0 = loops.index t : f32
    loops.store %0, %x[i]
  }
  loops.nest "copy" (i = 8) {
    %0 = loops.load %h[i]
    loops.store %0, %copy[i]
  }
  loops.nest "h" (i = 8) {
    %0 = loops.load %packed[i]
    %1 = loops.load %copy[-i + 7]
    %2 = loops.load %x[i]
    %3 = math.fma %0, %1, %2 : f32
    loops.store %3, %h[i]
  }
}

// A node that a loop around writes keeps a nest inside of that.
// CHECK-LABEL: loops.func @around indices (u = 3, n) {
// CHECK:         %half = assign.node "half" local because "computed before the loop over @step"
// CHECK:         loops.nest "w" (i = 8) {
// CHECK:         loops.nest "half" (i = 8) {
// CHECK:         loops.nest "packed" (i = 8) {
// CHECK:         loops.repeat @step t = 4 ("w" = %w, "h" = %h, "packed" = %packed)
loops.func @around indices (u = 3, n) {
  %w = assign.node "w" on_device : memref<8xf32>
  %h = assign.node "h" on_device : memref<8xf32>
  loops.nest "w" (i = 8) {
    %0 = loops.index u : f32
    loops.store %0, %w[i]
  }
  loops.repeat @step t = 4 ("w" = %w, "h" = %h)
}

// CHECK-LABEL: loops.func @main indices (n) {
// CHECK:         loops.nest "half" (i = 8) {
// CHECK-NEXT:      loops.load %x[i]
// CHECK:         loops.nest "packed" (i = 8) {
// CHECK-NEXT:      loops.load %half[-i + 7]
// CHECK:         loops.repeat @step t = 4 while %going ("w" = %x, "h" = %h, "packed" = %packed)
// CHECK:         loops.repeat @around u = 3 ("w" = %x, "h" = %h)
loops.func @main indices (n) {
  %x = assign.node "x" on_device : memref<8xf32>
  %h = assign.node "h" on_device : memref<8xf32>
  %going = assign.node "going" on_device : memref<1xi32>
  loops.repeat @step t = 4 while %going ("w" = %x, "h" = %h)
  loops.repeat @around u = 3 ("w" = %x, "h" = %h)
}
