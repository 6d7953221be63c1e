// RUN: ocannl-opt %s -t llvm | filecheck %s

// A strip of 32 rows has 4 tiles. Each fetches a quarter of the next panel of 512 x 16 elements: 16 bytes a step, from
// 32768 bytes further on, where its share begins 512 x 16 bytes, 1024 a row, after that of the tile before.
// CHECK-LABEL: define internal void @"strips.y"
// CHECK:         [[STRIP:%.*]] = phi i64 [ 0, {{.*}}
// CHECK:         mul {{.*}}i64 [[STRIP]], -1024
// CHECK:         getelementptr [32768 x i8], ptr
// CHECK:         [[SHARE:%.*]] = getelementptr [1024 x i8], ptr
// CHECK:         getelementptr [16 x i8], ptr [[SHARE]]
// CHECK:         [[AHEAD:%.*]] = getelementptr i8, ptr {{.*}}, i64 32768
// CHECK-NEXT:    call void @llvm.prefetch.p0(ptr [[AHEAD]], i32 0, i32 2, i32 1)
// CHECK-NOT:     i32 2, i32 1)
// CHECK-LABEL: define internal void @"strips.z"
// CHECK-NOT:     i32 2, i32 1)
// CHECK:       }
loops.func @strips attributes {arena = 0 : i64} {
  %x = assign.node "x" constant : memref<64x512xf32>
  %w = assign.node "w" constant : memref<16x512x16xf32>
  %v = assign.node "v" constant : memref<8x512x16xf32>
  %y = assign.node "y" on_device : memref<64x256xf32>
  %z = assign.node "z" on_device : memref<64x128xf32>
  loops.nest "y" (i = 64, j_panel = 16, j = 16) schedule <order = (j_panel, j, i), rows = i : 8, lanes = j : 16, strips = i : 32> {
    %s = loops.reduce add (k = 512) : f32 {
      %a = loops.load %x[i, k]
      %c = loops.load %w[j_panel, k, j]
      %p = arith.mulf %a, %c : f32
      loops.yield %p
    }
    loops.store %s, %y[i, 16*j_panel + j]
  }
  // A small operand stays in that cache.
  loops.nest "z" (i = 64, j_panel = 8, j = 16) schedule <order = (j_panel, j, i), rows = i : 8, lanes = j : 16, strips = i : 32> {
    %s = loops.reduce add (k = 512) : f32 {
      %a = loops.load %x[i, k]
      %c = loops.load %v[j_panel, k, j]
      %p = arith.mulf %a, %c : f32
      loops.yield %p
    }
    loops.store %s, %z[i, 16*j_panel + j]
  }
}

// 32 bytes a step: of the four points that the body of the loop has, every other one fetches another line.
// CHECK-LABEL: define internal void @"wide.y"
// CHECK:         [[SHARE:%.*]] = getelementptr [2048 x i8], ptr
// CHECK:         [[LINE:%.*]] = getelementptr [32 x i8], ptr [[SHARE]]
// CHECK-NEXT:    [[AHEAD:%.*]] = getelementptr i8, ptr [[LINE]], i64 65536
// CHECK-NEXT:    call void @llvm.prefetch.p0(ptr [[AHEAD]], i32 0, i32 2, i32 1)
// CHECK:         [[NEXT:%.*]] = getelementptr i8, ptr [[LINE]], i64 65600
// CHECK-NEXT:    call void @llvm.prefetch.p0(ptr [[NEXT]], i32 0, i32 2, i32 1)
// CHECK-NOT:     i32 2, i32 1)
// CHECK:       }
loops.func @wide attributes {arena = 0 : i64} {
  %x = assign.node "x" constant : memref<64x512xf32>
  %w = assign.node "w" constant : memref<8x512x32xf32>
  %y = assign.node "y" on_device : memref<64x256xf32>
  loops.nest "y" (i = 64, j_panel = 8, j = 32) schedule <order = (j_panel, j, i), rows = i : 8, lanes = j : 32, strips = i : 32> {
    %s = loops.reduce add (k = 512) : f32 {
      %a = loops.load %x[i, k]
      %c = loops.load %w[j_panel, k, j]
      %p = arith.mulf %a, %c : f32
      loops.yield %p
    }
    loops.store %s, %y[i, 32*j_panel + j]
  }
}
