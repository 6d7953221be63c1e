// RUN: ocannl-opt %s -t llvm | filecheck %s

// The rows of a large matrix that are read once are fetched one tile ahead: 2 rows of 512 elements further.
// CHECK-LABEL: define internal void @"large.y"
// CHECK:         [[ROW:%.*]] = getelementptr float, ptr {{%.*}}, i64 512
// CHECK-NEXT:    load <16 x float>, ptr [[ROW]], align 4
// CHECK-NEXT:    [[NEXT:%.*]] = getelementptr float, ptr {{%.*}}, i64 1024
// CHECK-NEXT:    call void @llvm.prefetch.p0(ptr [[NEXT]], i32 0, i32 3, i32 1)
// CHECK-NEXT:    [[LAST:%.*]] = getelementptr float, ptr {{%.*}}, i64 1536
// CHECK-NEXT:    call void @llvm.prefetch.p0(ptr [[LAST]], i32 0, i32 3, i32 1)
loops.func @large attributes {arena = 0 : i64} {
  %w = assign.node "w" constant : memref<512x512xf32>
  %x = assign.node "x" constant : memref<512xf32>
  %y = assign.node "y" on_device : memref<512xf32>
  loops.nest "y" (o = 512) schedule <order = (o), rows = o : 2, lanes = k : 16> {
    %r = loops.reduce add (k = 512) : f32 {
      %a = loops.load %w[o, k]
      %b = loops.load %x[k]
      %p = arith.mulf %a, %b : f32
      loops.yield %p
    }
    loops.store %r, %y[o]
  }
}

// Those of a small one, and what all tiles read, are in the caches.
// CHECK-LABEL: define internal void @"small.y"
// CHECK-NOT:     @llvm.prefetch
// CHECK:       }
loops.func @small attributes {arena = 0 : i64} {
  %w = assign.node "w" constant : memref<256x512xf32>
  %x = assign.node "x" constant : memref<512xf32>
  %y = assign.node "y" on_device : memref<3x256xf32>
  loops.nest "y" (b = 3, o = 256) schedule <order = (b, o), rows = o : 2, lanes = k : 16> {
    %r = loops.reduce add (k = 512) : f32 {
      %a = loops.load %w[o, k]
      %b1 = loops.load %x[k]
      %p = arith.mulf %a, %b1 : f32
      loops.yield %p
    }
    loops.store %r, %y[b, o]
  }
}
