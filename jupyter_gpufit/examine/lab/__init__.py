"""The lab as its administrator sees it: make it, and prove that it is sound.

init     make or repair the lab: a plan (pure), then the deeds
everyone what a hub's users have without doing anything
uninstall what was made, removed again
check    which questions are asked
facts    the questions    judge   what the answers mean (pure)
trial    an actual try: a ticket, seen and attacked by another user
places   what stands at a path
"""
