// RUN: ocannl-opt %s --split-input-file -p "rematerialize{l2_bytes=32 last_level_bytes=0}" | filecheck %s

// `b` is computed again in its only late reader, from `a` again and from `m`, which is small and kept until then.
// `c` is before its input is overwritten. Too much work went into `d`.
// CHECK-LABEL: loops.func @late
// CHECK:         loops.nest "y again"
// CHECK:         loops.nest "c.again .. w" (i = 8, j = 8) {
// CHECK-NEXT:      %[[W:.*]] = loops.load %w[j, i]
// CHECK-NEXT:      %[[N:.*]] = arith.negf %[[W]]
// CHECK-NEXT:      loops.store %[[N]], %c_1[i, j]
// CHECK-NEXT:      %[[X:.*]] = loops.load %x[j, i]
// CHECK-NEXT:      loops.store %[[X]], %w[j, i]
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "a.again .. z" (i = 8, j = 8) {
// CHECK-NEXT:      %[[X:.*]] = loops.load %x[i, j]
// CHECK-NEXT:      %[[A:.*]] = arith.negf %[[X]]
// CHECK-NEXT:      %[[M:.*]] = loops.load %m[i]
// CHECK-NEXT:      %[[B:.*]] = arith.mulf %[[A]], %[[M]]
// CHECK-NEXT:      %[[C:.*]] = loops.load %c_1[i, j]
// CHECK-NEXT:      %[[D:.*]] = loops.load %d[i, j]
// CHECK-NEXT:      %[[S:.*]] = arith.addf %[[B]], %[[C]]
// CHECK-NEXT:      %[[Z:.*]] = arith.addf %[[S]], %[[D]]
// CHECK-NEXT:      loops.store %[[Z]], %z[i, j]
// CHECK-NEXT:    }
loops.func @late {
  %x = assign.node "x" constant because "data" : memref<8x8xf32>
  %w = assign.node "w" on_device because "parameter" : memref<8x8xf32>
  %m = assign.node "m" local because "intermediate value" : memref<8xf32>
  %a = assign.node "a" local because "intermediate value" : memref<8x8xf32>
  %b = assign.node "b" local because "intermediate value" : memref<8x8xf32>
  %c = assign.node "c" local because "intermediate value" : memref<8x8xf32>
  %d = assign.node "d" local because "intermediate value" : memref<8x8xf32>
  %e = assign.node "e" local because "intermediate value" : memref<8x8xf32>
  %f = assign.node "f" local because "intermediate value" : memref<8x8xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<8x8xf32>
  %z = assign.node "z" on_device because "computed by forward" : memref<8x8xf32>
  loops.nest "m" (i = 8) {
    %0 = loops.load %x[i, 0]
    loops.store %0, %m[i]
  }
  loops.nest "a" (i = 8, j = 8) {
    %1 = loops.load %x[i, j]
    %2 = arith.negf %1 : f32
    loops.store %2, %a[i, j]
  }
  loops.nest "b" (i = 8, j = 8) {
    %3 = loops.load %a[i, j]
    %4 = loops.load %m[i]
    %5 = arith.mulf %3, %4 : f32
    loops.store %5, %b[i, j]
  }
  loops.nest "c" (i = 8, j = 8) {
    %6 = loops.load %w[j, i]
    %7 = arith.negf %6 : f32
    loops.store %7, %c[i, j]
  }
  loops.nest "d" (i = 8, j = 8) {
    %8 = loops.reduce add (k = 8) : f32 {
      %9 = loops.load %x[i, k]
      %10 = loops.load %x[k, j]
      %11 = arith.mulf %9, %10 : f32
      loops.yield %11
    }
    loops.store %8, %d[i, j]
  }
  loops.nest "y" (i = 8, j = 8) {
    %12 = loops.load %b[j, i]
    %13 = loops.load %c[j, i]
    %14 = loops.load %d[j, i]
    %15 = arith.addf %12, %13 : f32
    %16 = arith.addf %15, %14 : f32
    loops.store %16, %y[i, j]
  }
  loops.nest "e" (i = 8, j = 8) {
    %17 = loops.reduce add (k = 8, l = 8) : f32 {
      %18 = loops.load %y[i, k]
      %19 = loops.load %y[l, j]
      %20 = arith.mulf %18, %19 : f32
      loops.yield %20
    }
    loops.store %17, %e[i, j]
  }
  loops.nest "f" (i = 8, j = 8) {
    %21 = loops.load %e[j, i]
    loops.store %21, %f[i, j]
  }
  loops.nest "y again" (i = 8, j = 8) {
    %22 = loops.load %f[j, i]
    loops.store %22, %y[i, j]
  }
  loops.nest "w" (i = 8, j = 8) {
    %23 = loops.load %x[i, j]
    loops.store %23, %w[i, j]
  }
  loops.nest "z" (i = 8, j = 8) {
    %24 = loops.load %b[i, j]
    %25 = loops.load %c[i, j]
    %26 = loops.load %d[i, j]
    %27 = arith.addf %24, %25 : f32
    %28 = arith.addf %27, %26 : f32
    loops.store %28, %z[i, j]
  }
}

// -----

// Little is live.
// CHECK-LABEL: loops.func @little
// CHECK-NOT:     again
loops.func @little {
  %x = assign.node "x" constant because "data" : memref<8xf32>
  %a = assign.node "a" local because "intermediate value" : memref<8xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<8xf32>
  %z = assign.node "z" on_device because "computed by forward" : memref<8xf32>
  loops.nest "a" (i = 8) {
    %0 = loops.load %x[i]
    loops.store %0, %a[i]
  }
  loops.nest "y" (i = 8) {
    %1 = loops.load %x[i]
    loops.store %1, %y[i]
  }
  loops.nest "z" (i = 8) {
    %2 = loops.load %a[i]
    loops.store %2, %z[i]
  }
}
