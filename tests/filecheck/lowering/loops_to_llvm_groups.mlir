// RUN: ocannl-opt %s --split-input-file -t llvm | filecheck %s

// A group is one function. What it declares lives on the stack, what its variables do not move is outside of its
// loop, and what the next point loads is fetched ahead.
// CHECK-LABEL: define internal void @"grouped.m_.._y"(ptr noalias %p0, ptr noalias %p1)
// CHECK-NEXT:  entry:
// CHECK-NEXT:    [[M:%.*]] = alloca [1 x float], align 64
// CHECK-NEXT:    br label %loop1
// CHECK:       loop1:
// CHECK-NEXT:    [[I:%.*]] = phi i64 [ 0, %entry ], [ {{%.*}}, %loop1 ]
// CHECK-NEXT:    [[AT:%.*]] = getelementptr [16 x float], ptr %p0, i64 [[I]]
// CHECK-NEXT:    load <16 x float>, ptr [[AT]], align 4
// CHECK-NEXT:    [[NEXT:%.*]] = getelementptr float, ptr [[AT]], i64 16
// CHECK-NEXT:    call void @llvm.prefetch.p0(ptr [[NEXT]], i32 0, i32 3, i32 1)
// CHECK:         store float {{%.*}}, ptr [[M]], align 4
// CHECK:         load float, ptr [[M]], align 4
// CHECK:         store <16 x float> {{%.*}}, ptr {{%.*}}, align 4
// CHECK:         icmp ult i64 {{%.*}}, 5
loops.func @grouped attributes {arena = 0 : i64} {
  %x = assign.node "x" constant : memref<5x16xf32>
  %y = assign.node "y" on_device : memref<5x16xf32>
  loops.group "m .. y" (b = 5) {
    %m = assign.node "m" local because "intermediate value" : memref<f32>
    loops.nest "m" () schedule <lanes = o : 16> {
      %r = loops.reduce max (o = 16) : f32 {
        %v = loops.load %x[b, o]
        loops.yield %v
      }
      loops.store %r, %m[]
    }
    loops.nest "y" (o = 16) schedule <lanes = o : 16> {
      %v = loops.load %x[b, o]
      %r = loops.load %m[]
      %d = arith.subf %v, %r : f32
      loops.store %d, %y[b, o]
    }
  }
}

// -----

// What many tiles load comes from a cache but for the first of them: it is not fetched ahead.
// CHECK-LABEL: define internal void @"grouped.y"(
// CHECK-NOT:     @llvm.prefetch
// CHECK:         ret void
loops.func @grouped attributes {arena = 0 : i64} {
  %x = assign.node "x" constant : memref<5x16x32xf32>
  %w = assign.node "w" constant : memref<12x16xf32>
  %y = assign.node "y" on_device : memref<5x12x32xf32>
  loops.group "y" (b = 5) {
    loops.nest "y" (i = 12, o = 32) schedule <order = (o, i), rows = i : 4, lanes = o : 32> {
      %s = loops.reduce add (k = 16) : f32 {
        %v = loops.load %x[b, k, o]
        %u = loops.load %w[i, k]
        %p = arith.mulf %v, %u : f32
        loops.yield %p
      }
      loops.store %s, %y[b, i, o]
    }
  }
}

// -----

// What one point loads of a node would push out of the first-level cache what it has fetched for the next point.
// CHECK-LABEL: define internal void @"rows.y"(
// CHECK-NOT:     @llvm.prefetch
// CHECK-LABEL: define internal void @"rows.z"(
// CHECK:         @llvm.prefetch
// CHECK:         ret void
loops.func @rows attributes {arena = 0 : i64} {
  %x = assign.node "x" constant : memref<5x4096xf32>
  %v = assign.node "v" constant : memref<5x2048xf32>
  %y = assign.node "y" on_device : memref<5x4096xf32>
  %z = assign.node "z" on_device : memref<5x2048xf32>
  loops.group "y" (b = 5) {
    loops.nest "y" (o = 4096) schedule <lanes = o : 16> {
      %a = loops.load %x[b, o]
      loops.store %a, %y[b, o]
    }
  }
  loops.group "z" (b = 5) {
    loops.nest "z" (o = 2048) schedule <lanes = o : 16> {
      %a = loops.load %v[b, o]
      loops.store %a, %z[b, o]
    }
  }
}
