// RUN: ocannl-opt %s --split-input-file -p order-nests | filecheck %s

// `u` and `v` free what they read; `b` would not, and waits.
// CHECK-LABEL: loops.func @early
// CHECK:         loops.nest "a"
// CHECK:         loops.nest "u"
// CHECK:         loops.nest "b"
// CHECK:         loops.nest "v"
// CHECK:         loops.nest "w"
loops.func @early {
  %x = assign.node "x" constant because "data" : memref<16xf32>
  %a = assign.node "a" local because "intermediate value" : memref<16xf32>
  %b = assign.node "b" local because "intermediate value" : memref<16xf32>
  %u = assign.node "u" on_device because "gradient" : memref<16xf32>
  %v = assign.node "v" on_device because "gradient" : memref<16xf32>
  %w = assign.node "w" on_device because "gradient" : memref<16xf32>
  loops.nest "a" (i = 16) {
    %0 = loops.load %x[i]
    loops.store %0, %a[i]
  }
  loops.nest "b" (i = 16) {
    %1 = loops.load %a[-i + 15]
    loops.store %1, %b[i]
  }
  loops.nest "v" (i = 16) {
    %2 = loops.load %b[i]
    loops.store %2, %v[i]
  }
  loops.nest "w" (i = 16) {
    %3 = loops.load %x[i]
    loops.store %3, %w[i]
  }
  loops.nest "u" (i = 16) {
    %4 = loops.load %a[i]
    loops.store %4, %u[i]
  }
}

// -----

// The last three would free what `a` takes, but store to what is loaded, stored or loaded again before.
// CHECK-LABEL: loops.func @dependent
// CHECK:         loops.nest "a"
// CHECK:         loops.nest "b"
// CHECK:         loops.nest "x"
// CHECK:         loops.nest "y"
// CHECK:         loops.nest "z"
loops.func @dependent {
  %x = assign.node "x" on_device because "parameter" : memref<16xf32>
  %y = assign.node "y" on_device because "node" : memref<16xf32>
  %z = assign.node "z" on_device because "node" : memref<16xf32>
  %a = assign.node "a" local because "intermediate value" : memref<16xf32>
  %b = assign.node "b" local because "intermediate value" : memref<16xf32>
  loops.nest "a" (i = 16) {
    %0 = loops.load %x[i]
    loops.store %0, %a[i]
  }
  loops.nest "b" (i = 16) {
    %1 = loops.load %x[-i + 15]
    loops.store %1, %b[i]
    loops.store %1, %y[i]
    loops.store %1, %z[i]
  }
  loops.nest "x" (i = 16) {
    %2 = loops.load %a[i]
    loops.store %2, %x[i]
  }
  loops.nest "y" (i = 16) {
    %3 = loops.load %a[-i + 15]
    loops.store %3, %y[-i + 15]
  }
  loops.nest "z" (i = 16) {
    %4 = loops.load %a[i]
    %5 = loops.load %z[i]
    %6 = arith.addf %4, %5 : f32
    loops.store %6, %z[i]
  }
  loops.nest "x again" (i = 16) {
    %7 = loops.load %b[i]
    loops.store %7, %x[i]
  }
}
