// RUN: ocannl-opt %s -p 'inline-nodes{large=4096}' | filecheck %s
// RUN: ocannl-opt %s -p 'inline-nodes{large=4097}' | filecheck %s --check-prefix STORED
// RUN: ocannl-opt %s -p inline-nodes | filecheck %s --check-prefix STORED

// Both readers compute an exponential, where it would fill no cache.
loops.func @exponentials {
  %x = assign.node "x" on_device because "data" : memref<8x128xf32>
  %e = assign.node "e" local because "intermediate value" : memref<8x128xf32>
  %s = assign.node "s" on_device because "computed by forward" : memref<8xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<8x128xf32>
  loops.nest "e" (b = 8, o = 128) {
    %0 = loops.load %x[b, o]
    %1 = math.exp %0 : f32
    loops.store %1, %e[b, o]
  }
  loops.nest "s" (b = 8) {
    %2 = loops.reduce add (o = 128) : f32 {
      %3 = loops.load %e[b, o]
      loops.yield %3
    }
    loops.store %2, %s[b]
  }
  loops.nest "y" (b = 8, o = 128) {
    %4 = loops.load %e[b, o]
    %5 = loops.load %s[b]
    %6 = arith.divf %4, %5 : f32
    loops.store %6, %y[b, o]
  }
}
// CHECK-LABEL: loops.func @exponentials {
// CHECK:         "e" virtual because "computed where it is used: no cache holds it"
// CHECK:         loops.nest "s" (b = 8) {
// CHECK-NEXT:      {{.*}} = loops.reduce add (o = 128) : f32 {
// CHECK-NEXT:        [[X:%.*]] = loops.load %x[b, o]
// CHECK-NEXT:        math.exp [[X]] : f32
// CHECK:         loops.nest "y" (b = 8, o = 128) {
// CHECK-NEXT:      [[X:%.*]] = loops.load %x[b, o]
// CHECK-NEXT:      math.exp [[X]] : f32

// STORED-LABEL: loops.func @exponentials {
// STORED:         loops.nest "e" (b = 8, o = 128) {
// STORED-COUNT-1: math.exp
// STORED-NOT:     math.exp
// STORED-LABEL: loops.func @repeated {

// It is stored where a reader would compute it more than once.
loops.func @repeated {
  %x = assign.node "x" on_device because "data" : memref<8x128xf32>
  %e = assign.node "e" local because "intermediate value" : memref<8x128xf32>
  %s = assign.node "s" on_device because "computed by forward" : memref<8x8xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<8x128xf32>
  loops.nest "e" (b = 8, o = 128) {
    %0 = loops.load %x[b, o]
    %1 = math.exp %0 : f32
    loops.store %1, %e[b, o]
  }
  loops.nest "s" (a = 8, b = 8) {
    %2 = loops.reduce add (o = 128) : f32 {
      %3 = loops.load %e[a, o]
      %4 = loops.load %e[b, o]
      %5 = arith.mulf %3, %4 : f32
      loops.yield %5
    }
    loops.store %2, %s[a, b]
  }
  loops.nest "y" (b = 8, o = 128) {
    %6 = loops.load %e[b, o]
    loops.store %6, %y[b, o]
  }
}
// CHECK-LABEL:   loops.func @repeated {
// CHECK:           loops.nest "e" (b = 8, o = 128) {
// CHECK-COUNT-1:   math.exp
// CHECK-NOT:       math.exp

// Weights of attention are stored: `online-softmax` looks for them.
loops.func @weights {
  %x = assign.node "x" on_device because "data" : memref<2x8x128xf32>
  %v = assign.node "v" on_device because "data" : memref<2x128x16xf32>
  %e = assign.node "e" local because "intermediate value" : memref<2x8x128xf32>
  %s = assign.node "s" local because "intermediate value" : memref<2x8xf32>
  %w = assign.node "w" local because "intermediate value" : memref<2x8x128xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<2x8x16xf32>
  loops.nest "e" (b = 2, i = 8, j = 128) {
    %0 = loops.load %x[b, i, j]
    %1 = math.exp %0 : f32
    loops.store %1, %e[b, i, j]
  }
  loops.nest "s" (b = 2, i = 8) {
    %2 = loops.reduce add (j = 128) : f32 {
      %3 = loops.load %e[b, i, j]
      loops.yield %3
    }
    loops.store %2, %s[b, i]
  }
  loops.nest "w" (b = 2, i = 8, j = 128) {
    %4 = loops.load %e[b, i, j]
    %5 = loops.load %s[b, i]
    %6 = arith.divf %4, %5 : f32
    loops.store %6, %w[b, i, j]
  }
  loops.nest "y" (b = 2, i = 8, d = 16) {
    %7 = loops.reduce add (j = 128) : f32 {
      %8 = loops.load %w[b, i, j]
      %9 = loops.load %v[b, j, d]
      %10 = arith.mulf %8, %9 : f32
      loops.yield %10
    }
    loops.store %7, %y[b, i, d]
  }
}
// CHECK-LABEL:   loops.func @weights {
// CHECK:           loops.nest "e" (b = 2, i = 8, j = 128) {
// CHECK-COUNT-1:   math.exp
// CHECK-NOT:       math.exp
