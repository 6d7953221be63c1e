// RUN: ocannl-opt %s -t llvm | filecheck %s

// The cells of a tile of a product, 2 rows of 20 elements, are fetched to be written before the loop of its sum: two lines
// of each row.
// CHECK-LABEL: define internal void @"product.y"
// CHECK:         call void @llvm.prefetch.p0(ptr [[CELL:%.*]], i32 1, i32 3, i32 1)
// CHECK-NEXT:    [[LINE:%.*]] = getelementptr float, ptr [[CELL]], i64 16
// CHECK-NEXT:    call void @llvm.prefetch.p0(ptr [[LINE]], i32 1, i32 3, i32 1)
// CHECK-NEXT:    [[NEXT:%.*]] = getelementptr float, ptr [[CELL]], i64 80
// CHECK-NEXT:    call void @llvm.prefetch.p0(ptr [[NEXT]], i32 1, i32 3, i32 1)
// CHECK-NEXT:    [[LAST:%.*]] = getelementptr float, ptr [[CELL]], i64 96
// CHECK-NEXT:    call void @llvm.prefetch.p0(ptr [[LAST]], i32 1, i32 3, i32 1)
// CHECK:         br label
// CHECK:         phi <32 x float>
// CHECK-NOT:     @llvm.prefetch
// CHECK:       }
loops.func @product attributes {arena = 0 : i64} {
  %x = assign.node "x" constant : memref<128x64xf32>
  %w = assign.node "w" constant : memref<64x80xf32>
  %y = assign.node "y" on_device : memref<128x80xf32>
  loops.nest "y" (b = 128, o = 80) schedule <order = (o, b), rows = b : 2, lanes = o : 20> {
    %r = loops.reduce add (k = 64) : f32 {
      %a = loops.load %x[b, k]
      %c = loops.load %w[k, o]
      %p = arith.mulf %a, %c : f32
      loops.yield %p
    }
    loops.store %r, %y[b, o]
  }
}

// So are those that are read after the sum, to be read from the second-level cache; of a cell that is read and stored, only
// the store.
// CHECK-LABEL: define internal void @"moved.y"
// CHECK-COUNT-4: call void @llvm.prefetch.p0(ptr {{%.*}}, i32 1, i32 3, i32 1)
// CHECK-COUNT-4: call void @llvm.prefetch.p0(ptr {{%.*}}, i32 0, i32 2, i32 1)
// CHECK-NOT:     @llvm.prefetch
// CHECK:       }
loops.func @moved attributes {arena = 0 : i64} {
  %x = assign.node "x" constant : memref<128x64xf32>
  %w = assign.node "w" constant : memref<64x80xf32>
  %z = assign.node "z" on_device : memref<128x80xf32>
  %y = assign.node "y" on_device : memref<128x80xf32>
  loops.nest "y" (b = 128, o = 80) schedule <order = (o, b), rows = b : 2, lanes = o : 20> {
    %r = loops.reduce add (k = 64) : f32 {
      %a = loops.load %x[b, k]
      %c = loops.load %w[k, o]
      %p = arith.mulf %a, %c : f32
      loops.yield %p
    }
    %old = loops.load %y[b, o]
    %both = arith.addf %r, %old : f32
    %other = loops.load %z[b, o]
    %all = arith.addf %both, %other : f32
    loops.store %all, %y[b, o]
  }
}

// Rows of 81 elements begin anywhere in a line, so that 16 of their elements may reach into two.
// CHECK-LABEL: define internal void @"anywhere.y"
// CHECK:         call void @llvm.prefetch.p0(ptr [[CELL:%.*]], i32 1, i32 3, i32 1)
// CHECK-NEXT:    [[END:%.*]] = getelementptr float, ptr [[CELL]], i64 15
// CHECK-NEXT:    call void @llvm.prefetch.p0(ptr [[END]], i32 1, i32 3, i32 1)
// CHECK-COUNT-2: call void @llvm.prefetch.p0(ptr {{%.*}}, i32 1, i32 3, i32 1)
// CHECK-NOT:     @llvm.prefetch
// CHECK:       }
loops.func @anywhere attributes {arena = 0 : i64} {
  %x = assign.node "x" constant : memref<128x64xf32>
  %w = assign.node "w" constant : memref<64x80xf32>
  %y = assign.node "y" on_device : memref<128x81xf32>
  loops.nest "y" (b = 128, o = 80) schedule <order = (o, b), rows = b : 2, lanes = o : 16> {
    %r = loops.reduce add (k = 64) : f32 {
      %a = loops.load %x[b, k]
      %c = loops.load %w[k, o]
      %p = arith.mulf %a, %c : f32
      loops.yield %p
    }
    loops.store %r, %y[b, o]
  }
}

// Not those of a short sum, of a small array, nor those that are stored element by element.
// CHECK-LABEL: define internal void @"others.short"
// CHECK-NOT:     @llvm.prefetch
// CHECK-LABEL: define internal void @"others.small"
// CHECK-NOT:     @llvm.prefetch
// CHECK-LABEL: define internal void @"others.columns"
// CHECK-NOT:     @llvm.prefetch
// CHECK:       }
loops.func @others attributes {arena = 0 : i64} {
  %x = assign.node "x" constant : memref<128x64xf32>
  %w = assign.node "w" constant : memref<64x80xf32>
  %y = assign.node "y" on_device : memref<128x80xf32>
  %z = assign.node "z" on_device : memref<64x64xf32>
  %t = assign.node "t" on_device : memref<80x128xf32>
  loops.nest "short" (b = 128, o = 80) schedule <order = (o, b), rows = b : 2, lanes = o : 16> {
    %r = loops.reduce add (k = 32) : f32 {
      %a = loops.load %x[b, k]
      %c = loops.load %w[k, o]
      %p = arith.mulf %a, %c : f32
      loops.yield %p
    }
    loops.store %r, %y[b, o]
  }
  loops.nest "small" (b = 64, o = 64) schedule <order = (o, b), rows = b : 2, lanes = o : 16> {
    %r = loops.reduce add (k = 64) : f32 {
      %a = loops.load %x[b, k]
      %c = loops.load %w[k, o]
      %p = arith.mulf %a, %c : f32
      loops.yield %p
    }
    loops.store %r, %z[b, o]
  }
  loops.nest "columns" (b = 128, o = 80) schedule <order = (o, b), rows = b : 2, lanes = o : 16> {
    %r = loops.reduce add (k = 64) : f32 {
      %a = loops.load %x[b, k]
      %c = loops.load %w[k, o]
      %p = arith.mulf %a, %c : f32
      loops.yield %p
    }
    loops.store %r, %t[o, b]
  }
}

// What stands before the sum, and is not read in it, is loaded after it.
// CHECK-LABEL: define internal void @"late.y"
// CHECK-COUNT-4: call void @llvm.prefetch.p0(ptr {{%.*}}, i32 0, i32 2, i32 1)
// CHECK-COUNT-4: call void @llvm.prefetch.p0(ptr {{%.*}}, i32 1, i32 3, i32 1)
// CHECK-NOT:     masked.load
// CHECK:         phi <32 x float>
// CHECK:         br i1
// CHECK:         masked.load
// CHECK-NEXT:    getelementptr
// CHECK-NEXT:    masked.load
// CHECK-NEXT:    fneg
// CHECK:       }
loops.func @late attributes {arena = 0 : i64} {
  %x = assign.node "x" constant : memref<128x64xf32>
  %w = assign.node "w" constant : memref<64x80xf32>
  %z = assign.node "z" on_device : memref<128x80xf32>
  %y = assign.node "y" on_device : memref<128x80xf32>
  loops.nest "y" (b = 128, o = 80) schedule <order = (o, b), rows = b : 2, lanes = o : 20> {
    %other = loops.load %z[b, o]
    %negated = arith.negf %other : f32
    %r = loops.reduce add (k = 64) : f32 {
      %a = loops.load %x[b, k]
      %c = loops.load %w[k, o]
      %p = arith.mulf %a, %c : f32
      loops.yield %p
    }
    %all = arith.addf %r, %negated : f32
    loops.store %all, %y[b, o]
  }
}
