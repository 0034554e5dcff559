# a shape joined otherwise than by a colon is named as it should be; one that no chip has is not
meshwright topology v6e-8x4; meshwright topology 'h100 16x8'; meshwright topology a100-80g_4x8; meshwright topology local4; meshwright topology v5e-4x4x4
