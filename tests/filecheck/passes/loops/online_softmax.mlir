// RUN: ocannl-opt %s -p online-softmax | filecheck %s

loops.func @causal {
  %q = assign.node "q" constant because "data" : memref<2048x64xf32>
  %k = assign.node "k" constant because "data" : memref<2048x64xf32>
  %v = assign.node "v" constant because "data" : memref<2048x64xf32>
  %s = assign.node "s" local because "intermediate value" : memref<2048x2048xf32>
  %m = assign.node "m" local because "intermediate value" : memref<2048xf32>
  %e = assign.node "e" local because "intermediate value" : memref<2048x2048xf32>
  %l = assign.node "l" local because "intermediate value" : memref<2048xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<2048x64xf32>
  loops.nest "s" (i = 2048, t = 2048) {
    %0 = loops.index t : i32
    %1 = loops.index i : i32
    %2 = arith.cmpi sle, %0, %1 : i32
    %3 = loops.reduce add (d = 64) : f32 {
      %4 = loops.load %q[i, d]
      %5 = loops.load %k[t, d]
      %6 = arith.mulf %4, %5 : f32
      loops.yield %6
    }
    %7 = arith.constant -1.000000e+09 : f32
    %8 = arith.select %2, %3, %7 : f32
    loops.store %8, %s[i, t]
  }
  loops.nest "m" (i = 2048) {
    %9 = loops.reduce max (t = 2048) : f32 {
      %10 = loops.load %s[i, t]
      loops.yield %10
    }
    loops.store %9, %m[i]
  }
  loops.nest "e" (i = 2048, t = 2048) {
    %11 = loops.load %s[i, t]
    %12 = loops.load %m[i]
    %13 = arith.subf %11, %12 : f32
    %14 = math.exp %13 : f32
    loops.store %14, %e[i, t]
  }
  loops.nest "l" (i = 2048) {
    %15 = loops.reduce add (t = 2048) : f32 {
      %16 = loops.load %e[i, t]
      loops.yield %16
    }
    loops.store %15, %l[i]
  }
  loops.nest "y" (i = 2048, d = 64) {
    %17 = loops.load %l[i]
    %18 = loops.reduce add (t = 2048) : f32 {
      %19 = loops.load %e[i, t]
      %20 = arith.divf %19, %17 : f32
      %21 = loops.load %v[t, d]
      %22 = arith.mulf %20, %21 : f32
      loops.yield %22
    }
    loops.store %18, %y[i, d]
  }
}

// CHECK-LABEL: loops.func @causal
// CHECK: %[[L:.*]] = assign.node "l" local
// CHECK: %[[MAXIMUM:.*]] = assign.node "m.partial" local because "partial results of m" : memref<2048xf32>
// CHECK: %[[SUM:.*]] = assign.node "y.partial" local because "partial results of y" : memref<2048x64xf32>
// CHECK: loops.group "s .. y" (key_block = 16, row_block = 32) where 128*key_block - 64*row_block + 1984 < 2048 {
// CHECK-NEXT: %[[S:.*]] = assign.node "s.block" local because "intermediate value" : memref<64x128xf32>
// CHECK-NEXT: %[[E:.*]] = assign.node "e.block" local because "intermediate value" : memref<64x128xf32>
// CHECK-NEXT: %[[RUNNING:.*]] = assign.node "running"
// CHECK-NEXT: %[[FACTOR:.*]] = assign.node "factor"
// CHECK-NEXT: loops.nest "s" (i = 64, t = 128)
// CHECK: loops.load %k[128*key_block + t, d1]
// CHECK: loops.store %{{.*}}, %[[S]][i, t]
// CHECK: loops.nest "m.partial" (i = 64)
// CHECK: %[[OLD:.*]] = loops.load %[[MAXIMUM]][i + 64*row_block]
// CHECK: %[[NEW:.*]] = arith.maximumf %[[OLD]]
// CHECK: %[[NONE:.*]] = arith.cmpf oeq, %[[NEW]], %{{.*}} : f32
// CHECK: %[[SAFE:.*]] = arith.select %[[NONE]], %{{.*}}, %[[NEW]] : f32
// CHECK: %[[CHANGE:.*]] = arith.subf %[[OLD]], %[[SAFE]] : f32
// CHECK-NEXT: %[[SCALE:.*]] = math.exp %[[CHANGE]] : f32
// CHECK-NEXT: loops.store %[[SAFE]], %[[RUNNING]][i]
// CHECK-NEXT: loops.store %[[SCALE]], %[[FACTOR]][i]
// CHECK: loops.nest "e" (i = 64, t = 128)
// CHECK: loops.load %[[RUNNING]][i]
// CHECK: loops.nest "y.partial" (i = 64, d = 64)
// CHECK-NOT: arith.divf
// CHECK: %[[SO_FAR:.*]] = loops.load %[[SUM]][i + 64*row_block, d]
// CHECK-NEXT: %[[BY:.*]] = loops.load %[[FACTOR]][i]
// CHECK-NEXT: arith.mulf %[[SO_FAR]], %[[BY]] : f32
// CHECK: loops.nest "y" (i = 2048, d = 64)
// CHECK: %[[TOTAL:.*]] = loops.load %[[SUM]][i, d]
// CHECK-NEXT: %[[BELOW:.*]] = loops.load %[[L]][i]
// CHECK-NEXT: arith.divf %[[TOTAL]], %[[BELOW]] : f32

// Exponentials that stay in memory are read there.
loops.func @kept {
  %q = assign.node "q" constant because "data" : memref<2048x64xf32>
  %k = assign.node "k" constant because "data" : memref<2048x64xf32>
  %v = assign.node "v" constant because "data" : memref<2048x64xf32>
  %s = assign.node "s" local because "intermediate value" : memref<2048x2048xf32>
  %m = assign.node "m" local because "intermediate value" : memref<2048xf32>
  %e = assign.node "e" on_device because "node" : memref<2048x2048xf32>
  %l = assign.node "l" local because "intermediate value" : memref<2048xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<2048x64xf32>
  loops.nest "s" (i = 2048, t = 2048) {
    %0 = loops.index t : i32
    %1 = loops.index i : i32
    %2 = arith.cmpi sle, %0, %1 : i32
    %3 = loops.reduce add (d = 64) : f32 {
      %4 = loops.load %q[i, d]
      %5 = loops.load %k[t, d]
      %6 = arith.mulf %4, %5 : f32
      loops.yield %6
    }
    %7 = arith.constant -1.000000e+09 : f32
    %8 = arith.select %2, %3, %7 : f32
    loops.store %8, %s[i, t]
  }
  loops.nest "m" (i = 2048) {
    %9 = loops.reduce max (t = 2048) : f32 {
      %10 = loops.load %s[i, t]
      loops.yield %10
    }
    loops.store %9, %m[i]
  }
  loops.nest "e" (i = 2048, t = 2048) {
    %11 = loops.load %s[i, t]
    %12 = loops.load %m[i]
    %13 = arith.subf %11, %12 : f32
    %14 = math.exp %13 : f32
    loops.store %14, %e[i, t]
  }
  loops.nest "l" (i = 2048) {
    %15 = loops.reduce add (t = 2048) : f32 {
      %16 = loops.load %e[i, t]
      loops.yield %16
    }
    loops.store %15, %l[i]
  }
  loops.nest "y" (i = 2048, d = 64) {
    %17 = loops.load %l[i]
    %18 = loops.reduce add (t = 2048) : f32 {
      %19 = loops.load %e[i, t]
      %20 = arith.divf %19, %17 : f32
      %21 = loops.load %v[t, d]
      %22 = arith.mulf %20, %21 : f32
      loops.yield %22
    }
    loops.store %18, %y[i, d]
  }
}
// CHECK-LABEL: loops.func @kept
// CHECK-NOT: loops.group

// Scores of short sequences stay in a cache.
loops.func @short {
  %q = assign.node "q" constant because "data" : memref<128x64xf32>
  %k = assign.node "k" constant because "data" : memref<128x64xf32>
  %v = assign.node "v" constant because "data" : memref<128x64xf32>
  %s = assign.node "s" local because "intermediate value" : memref<128x128xf32>
  %m = assign.node "m" local because "intermediate value" : memref<128xf32>
  %e = assign.node "e" local because "intermediate value" : memref<128x128xf32>
  %l = assign.node "l" local because "intermediate value" : memref<128xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<128x64xf32>
  loops.nest "s" (i = 128, t = 128) {
    %0 = loops.index t : i32
    %1 = loops.index i : i32
    %2 = arith.cmpi sle, %0, %1 : i32
    %3 = loops.reduce add (d = 64) : f32 {
      %4 = loops.load %q[i, d]
      %5 = loops.load %k[t, d]
      %6 = arith.mulf %4, %5 : f32
      loops.yield %6
    }
    %7 = arith.constant -1.000000e+09 : f32
    %8 = arith.select %2, %3, %7 : f32
    loops.store %8, %s[i, t]
  }
  loops.nest "m" (i = 128) {
    %9 = loops.reduce max (t = 128) : f32 {
      %10 = loops.load %s[i, t]
      loops.yield %10
    }
    loops.store %9, %m[i]
  }
  loops.nest "e" (i = 128, t = 128) {
    %11 = loops.load %s[i, t]
    %12 = loops.load %m[i]
    %13 = arith.subf %11, %12 : f32
    %14 = math.exp %13 : f32
    loops.store %14, %e[i, t]
  }
  loops.nest "l" (i = 128) {
    %15 = loops.reduce add (t = 128) : f32 {
      %16 = loops.load %e[i, t]
      loops.yield %16
    }
    loops.store %15, %l[i]
  }
  loops.nest "y" (i = 128, d = 64) {
    %17 = loops.load %l[i]
    %18 = loops.reduce add (t = 128) : f32 {
      %19 = loops.load %e[i, t]
      %20 = arith.divf %19, %17 : f32
      %21 = loops.load %v[t, d]
      %22 = arith.mulf %20, %21 : f32
      loops.yield %22
    }
    loops.store %18, %y[i, d]
  }
}
// CHECK-LABEL: loops.func @short
// CHECK-NOT: loops.group
