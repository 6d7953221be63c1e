// RUN: ocannl-opt %s -t llvm | filecheck %s

// Two panels have 16 tiles each in a strip of 128 rows: a step of these fetches 16 bytes, from where the next strip begins,
// 131072 bytes further on, a tile 4096 bytes, 512 a row.
// CHECK-LABEL: define internal void @"strips.y"
// CHECK:         [[STRIP:%.*]] = phi i64 [ 0, {{.*}}
// CHECK:         getelementptr [16 x i8], ptr
// CHECK:         [[AHEAD:%.*]] = getelementptr i8, ptr {{.*}}, i64 131072
// CHECK-NEXT:    call void @llvm.prefetch.p0(ptr [[AHEAD]], i32 0, i32 2, i32 1)
// CHECK-NOT:     i32 2, i32 1)
// CHECK:       }
loops.func @strips attributes {arena = 0 : i64} {
  %x = assign.node "x" constant : memref<8192x256xf32>
  %w = assign.node "w" constant : memref<256x32xf32>
  %y = assign.node "y" on_device : memref<8192x32xf32>
  loops.nest "y" (i = 8192, j = 32) schedule <order = (j, i), rows = i : 8, lanes = j : 16, strips = i : 128> {
    %s = loops.reduce add (k = 256) : f32 {
      %a = loops.load %x[i, k]
      %c = loops.load %w[k, j]
      %p = arith.mulf %a, %c : f32
      loops.yield %p
    }
    loops.store %s, %y[i, j]
  }
}

// Of a loop that is shorter than a tile there are no strips, so there is no next one.
// CHECK-LABEL: define internal void @"short.y"
// CHECK-NOT:     i32 2, i32 1)
// CHECK:       }
loops.func @short attributes {arena = 0 : i64} {
  %x = assign.node "x" constant : memref<8192x512xf32>
  %w = assign.node "w" constant : memref<8x512x16xf32>
  %y = assign.node "y" on_device : memref<3x128xf32>
  loops.nest "y" (i = 3, j_panel = 8, j = 16) schedule <order = (j_panel, j, i), rows = i : 8, lanes = j : 16, strips = i : 32> {
    %s = loops.reduce add (k = 512) : f32 {
      %a = loops.load %x[i, k]
      %c = loops.load %w[j_panel, k, j]
      %p = arith.mulf %a, %c : f32
      loops.yield %p
    }
    loops.store %s, %y[i, 16*j_panel + j]
  }
}
