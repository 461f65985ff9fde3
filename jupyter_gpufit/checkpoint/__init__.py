"""A training on disk: taken at a safe point, written beside the training, and checked before it is loaded.

    snapshot_values   what is saved            staging          the buffer it is copied into, which is the pause
    layout            where each blob goes     writer           the training's side: copy, hand over, go on
    request           what is asked of the     writer_process   process that writes; publish: whole or not there
    manifest          what a checkpoint says of itself          checksum  reading  files: list, check, open
    show              what `gpufit checkpoint show` shows

Nothing of these imports torch.
"""
